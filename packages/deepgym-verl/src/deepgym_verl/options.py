"""What a run says about its rewards: ``reward.custom_reward_function.reward_kwargs`` of verl's configuration.

``env``           environment (name or folder) or suite (name or JSONL file), or a list of these; without it a
                  row's ``extra_info.env`` names a built-in one
``mode``          name of the sandbox provider (default: ``local``)
``max_parallel``  runs that one worker starts at once (default: as many as the provider has room for)
``max_sessions``  episodes that one worker has open at once (default: as many as the provider has room for)
``deadline``      seconds within which a run must be able to start and end (default: 3600)
``lost``          what an agent loop of verl's v1 trainer does with a run without a verdict: ``auto``,
                  ``raise``, ``empty`` or ``mask``
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from deepgym.environments import Environment, MultiTurnEnvironment
from deepgym.exceptions import DeepGymError
from deepgym.integrations.judging import least_deadline
from deepgym.integrations.labels import TaskEnvs, TaskLabels

if TYPE_CHECKING:
    from deepgym.client import DeepGym

__all__ = ["DEADLINE", "Lost", "Options", "OptionsError", "options_of"]

DEADLINE = 3600.0
Lost = Literal["auto", "raise", "empty", "mask"]
#: What verl itself adds to a call of a reward function.
_VERLS = frozenset({"reward_router_address", "reward_model_tokenizer"})
_PLACE = "reward.custom_reward_function.reward_kwargs"


class OptionsError(DeepGymError, ValueError):
    """An option that is unknown or wrong; the message names it and says what it may be."""


@dataclass(frozen=True)
class Options:
    """The options, checked. Equal options share one judge in a process."""

    env: tuple[Any, ...] | None = None
    """Environments, their names or folders, or suites; ``None``: each row names its own."""
    mode: str = "local"
    max_parallel: int | None = None
    max_sessions: int | None = None
    deadline: float = DEADLINE
    lost: Lost = "auto"

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> Options:
        """The options in ``given``, which may be a configuration of OmegaConf's. What verl adds is ignored.

        Raises:
            OptionsError: an option is unknown or wrong.
        """
        found = {name: value for name, value in dict(given or {}).items() if name not in _VERLS}
        known = [field.name for field in fields(cls)]
        for name in found:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise OptionsError(f"{_PLACE}.{name} is no option; they are {', '.join(known)}{hint}")
        return cls(
            env=_env(found.get("env")),
            mode=_mode(found.get("mode")),
            max_parallel=_whole("max_parallel", found.get("max_parallel")),
            max_sessions=_whole("max_sessions", found.get("max_sessions")),
            deadline=_seconds(found.get("deadline")),
            lost=_lost(found.get("lost")),
        )

    def labels(self) -> TaskLabels:
        """Where a row's environment is found.

        Raises:
            OptionsError: there is no such environment, or its limits don't fit into ``deadline``.
        """
        try:
            labels = TaskLabels(self.env, "this run")
        except (DeepGymError, ValueError, TypeError, OSError) as error:
            raise OptionsError(f"{_PLACE}.env={_shown(self.env)}: {error}") from error
        for env in labels.declared:
            self.check(env)
        return labels

    def check(self, env: Any) -> None:
        """Make sure that one run of ``env`` and its repetition fit into ``deadline``.

        Raises:
            OptionsError: they don't; the message has both.
        """
        wall = getattr(env.limits, "wall", None)
        if wall is None:  # an episode's limits are its own
            return
        least = least_deadline([env])
        if least > self.deadline:
            raise OptionsError(
                f"{_PLACE}.deadline={self.deadline:g}: one run of {env.name!r} and its repetition may take "
                f"{least:g} s by its limits.wall={wall:g}; give a longer deadline or lower the limit"
            )

    def client(self) -> DeepGym:
        """A new client.

        Raises:
            OptionsError: there is no such provider, or it can't be had here.
        """
        from deepgym.client import DeepGym

        more: dict[str, Any] = {}
        if self.max_sessions is not None and self.mode == "local":
            more["max_sessions"] = self.max_sessions
        try:
            return DeepGym(self.mode, max_parallel=self.max_parallel, **more)
        except DeepGymError as error:
            raise OptionsError(f"{_PLACE}.mode={self.mode!r}: {error}") from error


def _shown(value: object) -> str:
    one = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return f"{one!r:.120}"


def _env(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    found = tuple(_flat(value))
    if not found:
        raise OptionsError(f"{_PLACE}.env={value!r:.80} is empty; without it each row names its environment")
    return found


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (str, os.PathLike, Environment, MultiTurnEnvironment)):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, (Mapping, bytes)):
        for one in value:
            yield from _flat(one)
    else:
        raise OptionsError(
            f"{_PLACE}.env={value!r:.80}: an environment, a suite, a JSONL file, or a list of these"
        )


def _mode(value: object) -> str:
    if value is None:
        return "local"
    if not isinstance(value, str) or not value:
        raise OptionsError(f"{_PLACE}.mode={value!r:.80}: the name of a sandbox provider, such as local")
    return value


def _whole(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionsError(f"{_PLACE}.{name}={value!r:.80}: a whole number, at least 1")
    return value


def _seconds(value: Any) -> float:
    if value is None:
        return DEADLINE
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value <= 0
    ):
        raise OptionsError(f"{_PLACE}.deadline={value!r:.80}: a number of seconds above 0")
    return float(value)


def _lost(value: object) -> Lost:
    if value is None:
        return "auto"
    for known in get_args(Lost):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise OptionsError(f"{_PLACE}.lost={value!r:.80}: one of {', '.join(get_args(Lost))}")


def options_of(env: TaskEnvs, given: Mapping[str, Any]) -> Options:
    """The options of a function that is made for ``env``.

    Raises:
        OptionsError: as ``Options.read``.
    """
    return Options.read({**given, "env": env})
