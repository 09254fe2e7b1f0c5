"""What a batch is made of: one item for each answer, and until when an item may start."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from deepgym.environments.environment import Environment
from deepgym.environments.task import Task

from .hosts import replay

if TYPE_CHECKING:
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.environments.suites import Suite

__all__ = [
    "Deadline",
    "EnvLike",
    "EnvironmentName",
    "Envs",
    "Item",
    "Seeds",
    "items_of",
    "items_of_suite",
    "multi_turn",
    "seeds_for",
    "worst_case",
]

EnvLike: TypeAlias = "Environment | str"
"""An environment, or what ``load_environment`` takes."""
EnvironmentName: TypeAlias = "str | os.PathLike[str]"
Envs: TypeAlias = "EnvLike | Sequence[EnvLike]"
Seeds: TypeAlias = "int | Sequence[int] | None"
"""One seed for all, one for each answer, or ``None`` for each environment's own."""

#: Seconds beyond a run's own limit that its start and its end may take.
_MARGIN = 2.0
_MAX_ANSWER = 16 << 20
_TOO_LONG = b"raise SystemExit('the answer is longer than 16 MiB')"


@dataclass(frozen=True)
class Item:
    """One answer of a batch."""

    env: Environment
    answer: str
    seed: int | None = None
    """``None``: the environment's own."""
    tree: bytes | None = None
    """An agent's frozen work directory, in place of an answer."""

    @property
    def chosen_seed(self) -> int:
        """The seed that the run uses."""
        return self.env.seed if self.seed is None else self.seed

    @property
    def text(self) -> bytes:
        """The code to place, as bytes; whatever a string can hold has some.

        An answer beyond 16 MiB is placed as a line that ends its own process: it gets its 0 like any other
        answer that dies, and no sandbox has to hold it. For an agent's work it is the program that runs that.
        """
        if self.tree is not None:
            return replay()
        if len(self.answer) > _MAX_ANSWER:
            return _TOO_LONG
        text = self.env.complete(self.answer).encode("utf-8", "surrogatepass")
        return text if len(text) <= _MAX_ANSWER else _TOO_LONG


def items_of(env: Envs, outputs: Sequence[str], seed: Seeds) -> list[Item]:
    """One item for each output.

    Raises:
        TypeError, ValueError: the arguments don't fit together; the text names the output.
        UnknownNameError: a name that is no environment.
    """
    if isinstance(outputs, (str, bytes)):
        raise TypeError("outputs must be a list of answers, got one string; wrap it in a list or use run")
    answers = list(outputs)
    if isinstance(env, (Task, str, os.PathLike)):
        environments = [_environment(env)] * len(answers)
    elif isinstance(env, Sequence):
        environments = [_environment(one) for one in env]
        if len(environments) != len(answers):
            raise ValueError(
                f"{len(environments)} environments for {len(answers)} outputs; give one for each output"
            )
    else:
        raise TypeError(f"env must be an Environment, a name, or a list of them, got {type(env).__name__}")
    for index, answer in enumerate(answers):
        if not isinstance(answer, str):
            raise TypeError(f"outputs[{index}] must be a string of code, got {type(answer).__name__}")
    seeds = seeds_for(seed, len(environments))
    return [
        Item(one, answer, number) for one, answer, number in zip(environments, answers, seeds, strict=True)
    ]


def _environment(env: object) -> Environment:
    if isinstance(env, Environment):
        return env
    if isinstance(env, (str, os.PathLike)):
        from deepgym.environments.registry import load_environment

        return load_environment(env)
    if isinstance(env, Task):
        raise TypeError(f"{env.name!r} is a multi-turn environment: use session or run_episode")
    raise TypeError(f"env must be an Environment or a name, got {type(env).__name__}")


def multi_turn(env: MultiTurnEnvironment | EnvironmentName) -> MultiTurnEnvironment:
    """The environment, loaded if it is given by name or path.

    Raises:
        UnknownNameError, InvalidEnvironmentError: no such multi-turn environment.
        TypeError: something else.
    """
    from deepgym.environments.multi_turn import MultiTurnEnvironment

    if isinstance(env, MultiTurnEnvironment):
        return env
    if isinstance(env, Environment):
        raise TypeError(f"{env.name!r} is answered at once, not in a session; use run or run_batch")
    if isinstance(env, (str, os.PathLike)):
        from deepgym.environments.registry import load_multi_turn_environment

        return load_multi_turn_environment(env)
    raise TypeError(f"env must be a MultiTurnEnvironment or a name, got {type(env).__name__}")


def seeds_for(seed: Seeds, count: int) -> Sequence[int | None]:
    """One seed for each of ``count`` outputs, or episodes.

    Raises:
        ValueError: not as many as are needed, or one that isn't a seed.
    """
    if seed is None:
        return [None] * count
    found = [seed] * count if isinstance(seed, int) else list(seed)
    if len(found) != count:
        raise ValueError(f"{len(found)} seeds for {count} outputs; give one, or one for each output")
    for number in found:
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise ValueError(f"seed must be an integer from 0 to 2**63 - 1, got {number!r:.80}")
    return found


def items_of_suite(
    suite: Suite | str, outputs: Sequence[str] | Mapping[str, str], seed: Seeds
) -> tuple[str, list[Item]]:
    """The suite's name and one item for each of its environments, in suite order.

    Raises:
        ValueError: an output is missing, or belongs to no environment of the suite.
        UnknownNameError: no such suite.
    """
    from deepgym.environments.suites import Suite, load_suite

    found = suite if isinstance(suite, Suite) else load_suite(suite)
    environments = list(found.environments)
    if isinstance(outputs, Mapping):
        missing = [env.name for env in environments if env.name not in outputs]
        unknown = sorted(set(outputs) - {env.name for env in environments})
        if missing or unknown:
            raise ValueError(
                f"outputs don't fit suite {found.name!r}: missing {missing[:3]}, unknown {unknown[:3]} "
                f"({len(missing)} and {len(unknown)} in all)"
            )
        outputs = [outputs[env.name] for env in environments]
    if len(outputs) != len(environments):
        raise ValueError(
            f"{len(outputs)} outputs for the {len(environments)} environments of suite {found.name!r}"
        )
    return found.name, items_of(environments, outputs, seed)


class Deadline:
    """Until when runs of a batch may start, so that each can use its whole limit.

    Raises:
        ValueError: the time can't hold even one run and its repetition.
    """

    def __init__(self, seconds: float | None, items: Sequence[Item]) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds
        needed = max((2 * worst_case(item.env) for item in items), default=0.0)
        if seconds is not None and seconds < needed:
            raise ValueError(
                f"deadline={seconds:g} s can't hold one run and its repetition ({needed:g} s by the "
                "environment's limits.wall); raise deadline or lower limits.wall"
            )

    def admits(self, env: Environment, scale: float = 1.0) -> bool:
        """Whether a run of ``env`` that starts now ends in time, whatever it does.

        ``scale``: what its limits are multiplied by.
        """
        return self._at is None or time.monotonic() + worst_case(env, scale) <= self._at


def worst_case(env: Environment, scale: float = 1.0) -> float:
    """Seconds that one run of ``env`` can take."""
    return env.limits.wall * scale + _MARGIN
