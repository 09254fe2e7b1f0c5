"""Which environment a sample is for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from deepgym.environments import Environment, Suite, list_environments, load_environment, load_suite
from deepgym.environments.suites import list_suites
from deepgym.exceptions import DeepGymError

__all__ = ["Envs", "Labels", "UnknownLabelError"]

#: An environment, its name or folder; a suite, its name or JSONL file; several; ``None``: any built-in one.
Envs: TypeAlias = (
    "Environment | str | os.PathLike[str] | Suite | Iterable[Environment | str | os.PathLike[str]] | None"
)
#: Where an object names its environment.
_KEYS = ("env", "env_id", "environment", "task_id")

#: The data set itself writes ``HumanEval/0``.
_HUMANEVAL = re.compile(r"humaneval/[0-9]{1,3}", re.IGNORECASE | re.ASCII)


class UnknownLabelError(DeepGymError, LookupError):
    """A label that names no environment of this endpoint; the message has the label and what is known."""


class Labels:
    """Finds a sample's environment by the endpoint's ``envs`` and the sample's label.

    With one environment every sample is for it, whatever its label says. With several, or none given, a label
    names one: as text, or in an object's (or a JSON text's) ``env``, ``env_id``, ``environment`` or
    ``task_id``.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment.
        ValueError: no environment at all, or two of one name.
    """

    def __init__(self, envs: Envs) -> None:
        self._only: Environment | None = None
        self._known: dict[str, Environment] | None = None
        if envs is None:
            return
        found = _all(envs)
        self._known = {env.name: env for env in found}
        if not found or len(self._known) != len(found):
            raise ValueError("envs: at least one environment is needed, and each needs a name of its own")
        if len(found) == 1:
            self._only = found[0]

    @property
    def declared(self) -> tuple[Environment, ...]:
        """The environments that are known beforehand; none if labels may name any."""
        if self._only is not None:
            return (self._only,)
        return tuple((self._known or {}).values())

    def environment(self, label: object) -> Environment:
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

    def _built_in(self, name: str) -> Environment:
        # A label may come from anywhere, so none is ever taken for a folder.
        name = _own_name(name)
        if name not in list_environments() and not _HUMANEVAL.fullmatch(name):
            raise UnknownLabelError(f"the label names {_shown(name)}, which isn't built in; {self._hint()}")
        try:
            return load_environment(name)
        except DeepGymError as error:
            raise UnknownLabelError(f"the label names {_shown(name)}: {error}") from error

    def _hint(self) -> str:
        known = list(self._known or ())
        if not known:
            return "give the endpoint an environment, or put its name into the label"
        more = f" and {len(known) - 5} more" if len(known) > 5 else ""
        return f"this endpoint has {', '.join(known[:5])}{more}"


def _all(envs: Environment | str | os.PathLike[str] | Iterable[Any]) -> list[Environment]:
    if isinstance(envs, Environment):
        return [envs]
    if not isinstance(envs, (str, os.PathLike)):
        return [one for env in envs for one in _all(env)]
    text = os.fspath(envs)
    if text in list_suites() or text.endswith((".jsonl", ".jsonl.gz")):
        return list(load_suite(envs))
    return [load_environment(envs)]


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
