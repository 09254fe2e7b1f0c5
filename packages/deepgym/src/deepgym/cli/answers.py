"""Answers from files, standard input and JSONL rows.

Text (``.md``, ``.txt``, ``--text``, a row's ``completion``) goes through ``deepgym.extract``; all else
is code and stays as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepgym.cli.outcome import UsageError
from deepgym.extract import extract_code

__all__ = ["Answer", "read_answer", "read_answers", "read_rows"]

_TEXT = frozenset({".md", ".markdown", ".txt"})
_ROWS = frozenset({".jsonl", ".ndjson"})


@dataclass(frozen=True)
class Answer:
    """Code to grade, where it came from, and the environment that its row names, if any."""

    label: str
    code: str
    env: str | None = None


def read_answer(path: str, *, text: bool = False) -> Answer:
    """The answer in one file, or on standard input for ``-``.

    Raises:
        UsageError: the path isn't a readable file. It is never taken for code.
    """
    content = _read(path)
    is_text = text or Path(path).suffix.lower() in _TEXT
    return Answer("stdin" if path == "-" else path, extract_code(content) if is_text else content)


def read_answers(paths: Sequence[str]) -> list[Answer]:
    """One answer for each file and each row of a ``.jsonl`` file, in order; ``-`` is JSONL.

    Raises:
        UsageError: a path isn't a readable file, a row isn't valid, or there is no answer at all.
    """
    answers: list[Answer] = []
    for path in paths:
        if path == "-" or Path(path).suffix.lower() in _ROWS:
            answers.extend(read_rows(path))
        else:
            answers.append(read_answer(path))
    if not answers:
        raise UsageError(f"no answers in {', '.join(paths)}")
    return answers


def read_rows(path: str) -> list[Answer]:
    """The answers of a JSONL file: objects with ``completion`` (text or messages) or ``code``.

    ``env`` or ``task_id`` names the row's environment.

    Raises:
        UsageError: naming the file and the line.
    """
    name = "stdin" if path == "-" else path
    return list(_rows(name, _read(path)))


def _rows(name: str, content: str) -> Iterator[Answer]:
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{name}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{where}: not JSON: {error}") from None
            yield _row(where, row)


def _row(where: str, row: object) -> Answer:
    if not isinstance(row, dict) or ("completion" in row) == ("code" in row):
        raise UsageError(f"{where}: a row is an object with either 'completion' (text) or 'code'")
    env = _env(where, row)
    if "code" in row:
        if not isinstance(row["code"], str):
            raise UsageError(f"{where}: 'code' must be text")
        return Answer(where, row["code"], env)
    try:
        return Answer(where, extract_code(row["completion"]), env)
    except TypeError as error:
        raise UsageError(f"{where}: {error}") from None


def _env(where: str, row: dict[str, object]) -> str | None:
    env = row.get("env", row.get("task_id"))
    if isinstance(env, int) and not isinstance(env, bool):
        return str(env)
    if env is not None and not isinstance(env, str):
        raise UsageError(f"{where}: 'env' must be the name of an environment")
    # The data set's own spelling, as its samples have it.
    return env.replace("HumanEval/", "humaneval/") if env else None


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    try:
        return Path(path).read_bytes().decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"can't read {path!r}: {reason}") from None
