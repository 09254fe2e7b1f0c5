"""Data sets as JSON lines: MBPP-style and HumanEval-style rows, told apart by their fields."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from deepgym.environments import humaneval, mbpp
from deepgym.environments.environment import Environment
from deepgym.environments.explain import explained
from deepgym.exceptions import InvalidEnvironmentError

if TYPE_CHECKING:
    from deepgym.environments.suites import Suite

__all__ = ["read_rows", "read_suite"]

MAX_BYTES = 256 << 20


def read_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The rows of ``path`` with their line numbers, blank lines left out.

    Raises:
        InvalidEnvironmentError: a line isn't a JSON object, the file isn't UTF-8 or gzip, or it holds
            more than 256 MiB.
    """
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidEnvironmentError(f"{path} can't be read: {error}") from None
    if len(raw) > MAX_BYTES:
        raise InvalidEnvironmentError(f"{path} holds more than {MAX_BYTES} bytes; split it")
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidEnvironmentError(f"{path} line {number} isn't JSON: {error}") from None
        if not isinstance(row, dict):
            raise InvalidEnvironmentError(
                f"{path} line {number} is a {type(row).__name__}; each line is one object"
            )
        rows.append((number, row))
    return rows


def read_suite(path: Path) -> Suite:
    """The suite of ``path``, named by its file name without the ending."""
    from deepgym.environments.suites import Skipped, Suite

    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    made: dict[str, Environment] = {}
    skipped = []
    for number, row in read_rows(path):
        where = f"{path} line {number}"
        try:
            environment = _environment(row, name, where)
        except mbpp.NotAFunction as reason:
            skipped.append(Skipped(f"{name}/{row.get('task_id', number)}", str(reason)))
            continue
        except ValidationError as error:
            raise InvalidEnvironmentError(explained(error, where, Environment)) from None
        if environment.name in made:
            raise InvalidEnvironmentError(
                f"{where}: task_id {row.get('task_id')!r} stands twice; make it unique"
            )
        made[environment.name] = environment
    if not made:
        reasons = "; ".join(f"{item.name}: {item.reason}" for item in skipped[:3]) or "the file has no rows"
        raise InvalidEnvironmentError(f"{path} holds no environment ({reasons})")
    return Suite(name, tuple(made.values()), tuple(skipped))


def _environment(row: dict[str, Any], suite: str, where: str) -> Environment:
    if "test_list" in row:
        return mbpp.environment(row, suite, where)
    if "entry_point" in row:
        return humaneval.environment(row, suite, where)
    raise InvalidEnvironmentError(
        f"{where} has the fields {', '.join(sorted(row))[:200]}; MBPP-style rows have task_id, text or "
        "prompt, code and test_list, HumanEval-style rows task_id, prompt, entry_point, "
        "canonical_solution and test"
    )
