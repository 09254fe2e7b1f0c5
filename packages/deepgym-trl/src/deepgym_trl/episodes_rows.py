"""Which environment a rollout's row is for, and what its prompt doesn't say yet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from deepgym.environments import MultiTurnEnvironment
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError
from deepgym.running.batch import multi_turn

__all__ = ["EpisodeColumn", "EpisodeEnvs", "task_beyond"]

_EnvLike: TypeAlias = "MultiTurnEnvironment | str | os.PathLike[str]"
EpisodeEnvs: TypeAlias = "_EnvLike | Sequence[_EnvLike]"


class EpisodeColumn:
    """``envs``: one environment for all rows, or its name or folder; several, chosen by the name in
    ``column``; or ``None`` for every environment that an agent works on in steps.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment, or it isn't valid.
        ValueError: ``envs`` is empty, or two of them share a name.
    """

    def __init__(self, envs: EpisodeEnvs | None, column: str) -> None:
        self.column = column
        self.single: MultiTurnEnvironment | None = None
        self.known: dict[str, MultiTurnEnvironment] | None = None
        if envs is None:
            return
        if isinstance(envs, (str, os.PathLike)) or not isinstance(envs, Sequence):
            self.single = multi_turn(envs)
            return
        loaded = [multi_turn(env) for env in envs]
        self.known = {env.name: env for env in loaded}
        if not loaded:
            raise ValueError("no environments: give at least one")
        if len(self.known) < len(loaded):
            names = [env.name for env in loaded]
            twice = min(name for name in names if names.count(name) > 1)
            raise ValueError(f"environments need names of their own to be chosen by; several are {twice!r}")

    @property
    def declared(self) -> list[MultiTurnEnvironment]:
        """The environments that are known before any row is."""
        return [self.single] if self.single is not None else list((self.known or {}).values())

    def choose(self, row: Mapping[str, Any]) -> MultiTurnEnvironment:
        """The row's environment.

        Raises:
            ValueError: the column is missing, or holds no name.
            UnknownNameError: no environment has the name; the message has the closest ones.
            InvalidEnvironmentError: it is one that is answered at once.
        """
        if self.single is not None:
            return self.single
        name = row.get(self.column)
        if not isinstance(name, str) or not name:
            there = ", ".join(sorted(map(str, row))) or "none"
            raise ValueError(
                f"column {self.column!r} must name the row's environment, got {name!r:.80} (columns: "
                f"{there}). Add it, give env_column= the name it has, or give make_environment_factory one "
                "environment for all rows"
            )
        try:
            return self._named(name)
        except UnknownNameError as error:
            raise UnknownNameError(f"column {self.column!r}: {error}", name) from None

    def _named(self, name: str) -> MultiTurnEnvironment:
        if self.known is None:
            try:
                return multi_turn(name)
            except InvalidEnvironmentError as error:
                raise InvalidEnvironmentError(
                    f"column {self.column!r}: {error}. environment_factory is for environments that are "
                    "worked on in steps; `deepgym envs list` names them"
                ) from None
        if name not in self.known:
            raise UnknownNameError.among("environment", name, self.known)
        return self.known[name]


def task_beyond(prompt: object, task: str) -> str | None:
    """The task, as TRL appends it to the prompt's last message; ``None`` if the prompt says it already."""
    messages = [prompt] if isinstance(prompt, str) else prompt
    said = [_text(message) for message in messages] if isinstance(messages, Sequence) else []
    if any(task.strip() in text for text in said):
        return None
    return f"\n\n{task}" if said and said[-1].strip() else task


def _text(message: object) -> str:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        blocks = [block.get("text") for block in content if isinstance(block, Mapping)]
        return "\n".join(text for text in blocks if isinstance(text, str))
    return ""
