"""Environments by the names that samples give."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from deepgym.environments import Environment, list_environments, load_environment, load_suite
from deepgym.environments.suites import list_suites

from .names import distinct
from .samples import Sample, SamplesError

__all__ = ["Given", "Known"]

#: A suite's name, a JSONL file, an environment's folder, or environments.
Given: TypeAlias = str | os.PathLike[str] | Iterable[Environment]
#: How names begin in lm-eval's own HumanEval tasks, and in ours.
_THEIRS, _OURS = "HumanEval/", "humaneval/"


class Known:
    """Environments by name: the given ones, then the built-in ones and HumanEval's.

    Raises:
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: as ``load_suite`` for what is given.
    """

    def __init__(self, suite: Given | None) -> None:
        self._given = {environment.name: environment for environment in distinct(_given(suite))}
        self._builtin = frozenset(list_environments())

    def environment(self, sample: Sample) -> Environment:
        """The environment that a sample's answers are judged in. A sample's name is never taken for a path.

        Raises:
            SamplesError: there is none; the message has the line and the name.
        """
        name = sample.task_id
        if name in self._given:
            return self._given[name]
        if name in self._builtin:
            return load_environment(name)
        theirs = name.startswith(_THEIRS)
        if theirs or name.startswith(_OURS):
            found = _humaneval().get(_OURS + name.partition("/")[2])
            if found is not None and not (theirs and found.prefix != sample.prompt):
                return found
        raise SamplesError(f"{sample.where}: {self._unknown(name)}")

    def _unknown(self, name: str) -> str:
        said = f"no environment is named {name[:80]!r}"
        if name.startswith(_THEIRS):
            return f"{said} and has this prompt; --suite takes the suite that it is of"
        if not self._given:
            return f"{said}; --suite takes the suite that it is of, a JSONL file for one"
        return f"{said}, among those of --suite neither: they are {', '.join(list(self._given)[:3])} ..."


def _given(suite: Given | None) -> Iterable[Environment]:
    if suite is None:
        return ()
    if not isinstance(suite, (str, os.PathLike)):
        return suite
    text = os.fspath(suite)
    if text in list_suites() or text.endswith((".jsonl", ".jsonl.gz")):
        return load_suite(suite)
    return (load_environment(suite),)


@cache
def _humaneval() -> dict[str, Environment]:
    return {environment.name: environment for environment in load_suite("humaneval")}
