"""Which environment a sample is for, by what its row says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from deepgym.environments import (
    Environment,
    MultiTurnEnvironment,
    Suite,
    list_environments,
    list_multi_turn_environments,
    load_environment,
    load_suite,
)
from deepgym.environments.registry import load_task
from deepgym.environments.suites import list_suites
from deepgym.exceptions import DeepGymError, InvalidEnvironmentError

__all__ = ["Envs", "Labels", "Task", "TaskEnvs", "TaskLabels", "UnknownLabelError"]

#: What an answer is graded by, or an agent works in.
Task: TypeAlias = "Environment | MultiTurnEnvironment"

#: An environment, its name or folder; a suite, its name or JSONL file; several; ``None``: any built-in one.
Envs: TypeAlias = (
    "Environment | str | os.PathLike[str] | Suite | Iterable[Environment | str | os.PathLike[str]] | None"
)
#: The same with environments that an agent works on in steps among them.
TaskEnvs: TypeAlias = "Envs | MultiTurnEnvironment | Iterable[Task | str | os.PathLike[str]]"
_Env = TypeVar("_Env", Environment, Task)
#: Where an object names its environment.
_KEYS = ("env", "env_id", "environment", "task_id")

#: The data set itself writes ``HumanEval/0``.
_HUMANEVAL = re.compile(r"humaneval/[0-9]{1,3}", re.IGNORECASE | re.ASCII)


class UnknownLabelError(DeepGymError, LookupError):
    """A label that names no known environment; the message has the label and what is known."""


class _Chosen(Generic[_Env]):
    def __init__(self, envs: object, owner: str, load: Callable[[Any], _Env], builtin: list[str]) -> None:
        self._owner, self._builtin = owner, builtin
        self._load: Callable[[Any], _Env] = load
        self._only: _Env | None = None
        self._known: dict[str, _Env] | None = None
        if envs is None:
            return
        found: list[_Env] = _all(envs, load)
        self._known = {env.name: env for env in found}
        if not found or len(self._known) != len(found):
            raise ValueError("envs: at least one environment is needed, and each needs a name of its own")
        if len(found) == 1:
            self._only = found[0]

    @property
    def declared(self) -> tuple[_Env, ...]:
        """The environments that are known beforehand; none if labels may name any."""
        if self._only is not None:
            return (self._only,)
        return tuple((self._known or {}).values())

    def environment(self, label: object) -> _Env:
        """The environment for ``label``.

        Raises:
            UnknownLabelError: it names none.
        """
        if self._only is not None:
            return self._only
        name = _named(label)
        if name is None:
            raise UnknownLabelError(f"the label {_shown(label)} names no environment; {self._hint()}")
        if self._known is None:
            return self._built_in(name)
        found = self._known.get(name) or self._known.get(_own_name(name))
        if found is None:
            raise UnknownLabelError(f"the label names {_shown(name)}; {self._hint()}")
        return found

    def _built_in(self, name: str) -> _Env:
        # A label may come from anywhere, so none is ever taken for a folder.
        name = _own_name(name)
        if name not in self._builtin and not _HUMANEVAL.fullmatch(name):
            raise UnknownLabelError(f"the label names {_shown(name)}, which isn't built in; {self._hint()}")
        try:
            return self._load(name)
        except DeepGymError as error:
            raise UnknownLabelError(f"the label names {_shown(name)}: {error}") from error

    def _hint(self) -> str:
        known = list(self._known or ())
        if not known:
            return f"give {self._owner} an environment, or put its name into the label"
        more = f" and {len(known) - 5} more" if len(known) > 5 else ""
        return f"{self._owner} has {', '.join(known[:5])}{more}"


class Labels(_Chosen[Environment]):
    """Finds a sample's environment by ``envs`` and the sample's label.

    With one environment every sample is for it, whatever its label says. With several, or none given, a label
    names one: as text, or in an object's (or a JSON text's) ``env``, ``env_id``, ``environment`` or
    ``task_id``. ``owner`` is who has the environments, for messages.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment.
        ValueError: no environment at all, or two of one name.
    """

    def __init__(self, envs: Envs, owner: str = "this endpoint") -> None:
        super().__init__(envs, owner, load_environment, list_environments())
        for env in self.declared:
            if not isinstance(env, Environment):
                raise InvalidEnvironmentError(
                    f"environment {env.name!r} is worked on in steps, by an agent; it has no single answer"
                )


class TaskLabels(_Chosen[Task]):
    """``Labels`` whose environments may be ones that an agent works on in steps."""

    def __init__(self, envs: TaskEnvs, owner: str) -> None:
        super().__init__(envs, owner, load_task, [*list_environments(), *list_multi_turn_environments()])


def _all(envs: Any, load: Callable[[Any], _Env]) -> list[_Env]:
    if isinstance(envs, (Environment, MultiTurnEnvironment)):
        return [envs]  # type: ignore[list-item]
    if not isinstance(envs, (str, os.PathLike)):
        return [one for env in envs for one in _all(env, load)]
    text = os.fspath(envs)
    if text in list_suites() or text.endswith((".jsonl", ".jsonl.gz")):
        return list(load_suite(envs))
    return [load(envs)]


def _own_name(name: str) -> str:
    return name.lower() if _HUMANEVAL.fullmatch(name) else name


def _shown(label: object) -> str:
    """So much of a label as a message may hold, however deep it is nested."""
    try:
        return f"{label!r:.80}"
    except (RecursionError, ValueError):
        return f"of type {type(label).__name__}"


def _named(label: object) -> str | None:
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            label = json.loads(label)
        except (ValueError, RecursionError):
            return None
    if isinstance(label, Mapping):
        label = next((label[key] for key in _KEYS if isinstance(label.get(key), str)), None)
    return label.strip() or None if isinstance(label, str) else None
