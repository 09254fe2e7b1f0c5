"""The object that TRL resets, whose methods it calls as tools, and which it uses again."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Protocol

from .episodes_grading import grade_all
from .episodes_play import UNAVAILABLE, Episode
from .episodes_rows import task_beyond
from .episodes_tools import tool_methods

__all__ = ["EpisodeEnvironment", "class_for"]


class Beginning(Protocol):
    """What makes episodes."""

    def begin(self, row: Mapping[str, Any], /) -> Episode:
        """A new episode for a row; raises if the row names no environment."""
        ...


class EpisodeEnvironment:
    """What TRL resets, calls the tools of, and reuses. ``reset`` and the tools are all its public methods."""

    def __init__(self, factory: Beginning) -> None:
        self._factory = factory
        self._deepgym_episode: Episode | None = None

    def reset(self, /, **row: Any) -> str | None:
        """Begin the row's episode; what is left of the last one goes.

        Returns what is to be added to the row's prompt: the task, or ``None`` if the prompt has it. A sandbox
        that can't be had is noticed later: its tools aren't available, and the rollout has no verdict.

        Raises:
            ValueError, UnknownNameError, InvalidEnvironmentError: the row names no environment for episodes.
        """
        self._leave()
        self._deepgym_episode = self._factory.begin(row)
        return task_beyond(row.get("prompt"), self._deepgym_episode.env.task)

    def _act(self, name: str, arguments: Mapping[str, Any]) -> str:
        episode = self._deepgym_episode
        return UNAVAILABLE if episode is None else episode.act(name, arguments)

    def _leave(self) -> None:
        episode, self._deepgym_episode = self._deepgym_episode, None
        if episode is not None:
            episode.close()

    def __repr__(self) -> str:
        episode = self._deepgym_episode
        return f"<{type(self).__name__} {'unused' if episode is None else episode.env.name}>"


def _get_reward(self: EpisodeEnvironment) -> float | None:
    """What TRL asks of an environment that owns its reward; ``None`` without a verdict. Never raises."""
    episode = self._deepgym_episode
    if episode is None:
        return None
    (result,) = grade_all([episode], 1, episode.grading_patience, 0.0)
    return result.reward


@functools.lru_cache(maxsize=64)
def class_for(tools: tuple[str, ...], owns_reward: bool) -> type[EpisodeEnvironment]:
    """The environment with the methods that these tools are; the same class for the same arguments."""
    methods: dict[str, Any] = {**tool_methods(tools)}
    if owns_reward:
        methods["get_reward"] = _get_reward
    # TRL names the reward of an environment that owns it after its class.
    return type("deepgym", (EpisodeEnvironment,), {"__doc__": EpisodeEnvironment.__doc__, **methods})
