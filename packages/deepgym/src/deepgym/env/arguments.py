"""What ``DeepGymEnv`` and ``AsyncDeepGymEnv`` are given, checked."""

from __future__ import annotations

import contextlib
import inspect
import operator
import os

from deepgym.env.episodes import Actions, Answers, Extract
from deepgym.environments import (
    Environment,
    MultiTurnEnvironment,
    load_environment,
    load_multi_turn_environment,
)
from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["EnvLike", "answers_of", "check_client", "episode_of", "seeded"]

#: An environment, its name, or the path of its folder.
EnvLike = Environment | MultiTurnEnvironment | str | os.PathLike[str]


def episode_of(env: EnvLike, max_turns: int, extract: Extract) -> Answers | Actions:
    """The kind of episode that ``env`` has, not begun yet.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment, or it isn't valid.
        TypeError, ValueError: ``env`` can't be an environment, or ``max_turns`` isn't for it.
    """
    found = _loaded(env)
    if isinstance(found, Environment):
        return Answers(found, max_turns, extract)
    if max_turns != 1:
        raise ValueError(
            f"max_turns={max_turns}: the steps of {found.name!r} are bounded by its own limits.steps "
            f"({found.limits.steps})"
        )
    return Actions(found)


def check_client(dg: object, *, awaited: bool) -> None:
    """Raise ``TypeError`` if ``dg`` is a client of the other kind."""
    run = getattr(dg, "run", None)
    if run is not None and inspect.iscoroutinefunction(run) is not awaited:
        fit = ("AsyncDeepGym", "DeepGymEnv") if awaited else ("DeepGym", "AsyncDeepGymEnv")
        raise TypeError(f"dg must be {fit[0]}, not {type(dg).__name__}; that one is for {fit[1]}")


def answers_of(episode: Answers | Actions) -> Answers:
    """``episode``, if it takes answers, so that many can be run at once.

    Raises:
        TypeError: its environment is worked on in steps.
    """
    if isinstance(episode, Answers):
        return episode
    raise TypeError(
        f"{episode.env_name!r} is worked on in steps, so there is no batch of answers; "
        "dg.run_episodes runs many episodes"
    )


def _loaded(env: EnvLike) -> Environment | MultiTurnEnvironment:
    if isinstance(env, (Environment, MultiTurnEnvironment)):
        return env
    if not isinstance(env, (str, os.PathLike)):
        raise TypeError(f"env must be an environment or a name, not {type(env).__name__}")
    with contextlib.suppress(InvalidEnvironmentError):  # it may be one of the other kind
        return load_environment(env)
    return load_multi_turn_environment(env)


def seeded(seed: int | None) -> int | None:
    """``seed`` as DeepGym takes it; NumPy's integers are integers too.

    Raises:
        TypeError, ValueError: it isn't an integer from 0 to 2**63 - 1.
    """
    if seed is None:
        return None
    number = operator.index(seed)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"seed must be an integer from 0 to 2**63 - 1, got {number!r:.80}")
    return number
