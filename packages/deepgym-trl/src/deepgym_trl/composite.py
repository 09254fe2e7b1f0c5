"""Several rewards for one answer, without un-masking a row that has no verdict.

TRL leaves a completion out only if *every* reward function returned ``None`` for it. A format or length
reward beside a DeepGym reward therefore trains the policy on our failure, as if the answer had scored 0.
Either make one reward of all of them (``CompositeReward``), or wrap each of the others (``gate``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .memory import Memory, Rewards
from .parts import Part, PrivateLoop, deepgym_of, distinct_names, name_of, outputs

__all__ = ["CompositeReward", "gate", "is_deepgym", "unmasking"]

#: A heavier weight could make an infinity of parts that are none.
_HEAVIEST = 1e6


class CompositeReward:
    """One reward function that is the weighted sum of several.

    ``reward`` is a DeepGym reward, or any reward function whose ``None`` means "no verdict". A row is
    ``None`` exactly where it, or another DeepGym reward among the parts, is. For the other parts ``None``
    means "doesn't apply" and adds 0; so does a value that isn't finite (logged once per part), and it never
    hides the row. Parts may be ``async def``: they are awaited in an event loop of the composite's own, side
    by side.

    ``weights``: one for each part, ``reward``'s first; 1.0 each by default. Every call logs the mean of each
    part, before its weight, over the rows with a verdict: ``deepgym/component/<name>/mean`` (NaN if it
    applied to none). Pickles if its parts do. What a part raises is raised.

    Raises:
        TypeError: a part can't be called, or is a reward model.
        ValueError: there isn't one weight for each part, finite and of a sane size.
    """

    __name__: str

    def __init__(
        self,
        reward: Callable[..., Any],
        *others: Callable[..., Any],
        weights: Sequence[float] | None = None,
        name: str = "deepgym_composite",
    ) -> None:
        self.__name__ = name
        self.reward = reward
        funcs = (reward, *others)
        self.weights = _weights(weights, len(funcs), name)
        names = distinct_names(funcs)
        self.parts = [
            Part(func, owner=name, judges=func is reward or is_deepgym(func), name=part_name)
            for func, part_name in zip(funcs, names, strict=True)
        ]
        self.metrics: dict[str, str] = {part: f"deepgym/component/{part}/mean" for part in names}
        self._loop = PrivateLoop()
        self._memory = Memory()

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        environments: Sequence[Any] | None = None,
        **columns: Any,
    ) -> Rewards:
        """One finite number for each completion; ``None`` where it has no verdict.

        Raises:
            TypeError, ValueError: a part didn't return one number or ``None`` per completion; the message
                names the part.
        """
        if (owed := self._memory.owed(completions)) is not None:
            return owed
        call = {
            "prompts": prompts,
            "completions": completions,
            **_given(completion_ids=completion_ids, trainer_state=trainer_state, log_metric=log_metric),
            **_given(log_extra=log_extra, environments=environments),
            **columns,
        }
        return self._memory.keep(completions, self._judged(call), given=True)

    def rewards_for(self, completions: Sequence[Any], **kwargs: Any) -> Rewards:
        """The rewards of a batch, for ``gate``: judged once, whether this or the call itself comes first."""
        known = self._memory.known(completions)
        if known is not None:
            return known
        rewards = self._judged({**kwargs, "completions": completions})
        return self._memory.keep(completions, rewards, given=False)

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise what a call would raise for a row of the data set, as far as its DeepGym parts can tell."""
        for part in self.parts:
            check = getattr(deepgym_of(part.func), "check_row", None)
            if check is not None:
                check(row)

    @property
    def env_column(self) -> Any:
        """The column that names a row's environment, as ``reward`` has it; ``None`` if it has none."""
        return getattr(deepgym_of(self.reward), "env_column", None)

    def _judged(self, call: dict[str, Any]) -> Rewards:
        count = len(call["completions"])
        returned = outputs([part.func for part in self.parts], self._loop, call)
        columns = [part.values(one, count) for part, one in zip(self.parts, returned, strict=True)]
        judging = [column for part, column in zip(self.parts, columns, strict=True) if part.judges]
        judged = [all(column[row] is not None for column in judging) for row in range(count)]
        if (log_metric := call.get("log_metric")) is not None:
            self._log(log_metric, columns, judged)
        return [
            self._total([column[row] for column in columns]) if judged[row] else None for row in range(count)
        ]

    def _total(self, values: list[float | None]) -> float:
        return sum(
            weight * value for weight, value in zip(self.weights, values, strict=True) if value is not None
        )

    def _log(
        self, log_metric: Callable[[str, float], None], columns: list[Rewards], judged: list[bool]
    ) -> None:
        for part, column in zip(self.parts, columns, strict=True):
            if part.name in self.metrics:
                applied = [
                    value for value, ok in zip(column, judged, strict=True) if ok and value is not None
                ]
                # Each value by itself: TRL (1.14 on) then weights the mean over ranks by the rows.
                for value in applied or [math.nan]:
                    log_metric(self.metrics[part.name], value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}: {', '.join(part.name for part in self.parts)}>"


class Gate:
    """See ``gate``."""

    __name__: str

    def __init__(self, fn: Callable[..., Any], by: Any) -> None:
        self.__name__ = name_of(fn)
        self.by = by
        self.part = Part(fn, owner="a gate", judges=False, name=self.__name__)
        self._loop = PrivateLoop()

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> Rewards:
        """What the function returned, and ``None`` where the row has no verdict."""
        rewards = self.by.rewards_for(completions=completions, **kwargs)
        (returned,) = outputs([self.part.func], self._loop, {**kwargs, "completions": completions})
        values = self.part.values(returned, len(completions))
        return [None if reward is None else value for reward, value in zip(rewards, values, strict=True)]

    def __repr__(self) -> str:
        return f"<Gate {self.__name__}>"


def gate(fn: Callable[..., Any], by: Any) -> Gate:
    """``fn``, a sync or async reward function, with ``None`` wherever ``by`` has no verdict on the row.

    For those who keep a list, to see each reward under its own name: ``reward_funcs=[reward, gate(fmt,
    by=reward)]``, in any order; nothing is judged twice. The result is a sync reward function, called as
    ``fn`` was and named like it; it pickles if both do. Its values are made sure of as those of a
    ``CompositeReward``'s part.

    Raises:
        TypeError: ``fn`` can't be called, or ``by`` is no DeepGym reward.
    """
    judge = deepgym_of(by)
    if judge is None:
        raise TypeError(
            f"gate(..., by={name_of(by)}): not a DeepGym reward, so it can't tell which rows have a verdict; "
            "give the TRLReward or CompositeReward that is in the list too"
        )
    return Gate(fn, judge)


def is_deepgym(func: object) -> bool:
    """Whether ``func`` is a DeepGym reward, whose ``None`` means that a row has no verdict."""
    return deepgym_of(func) is not None


def unmasking(reward_funcs: Sequence[object] | object) -> list[str]:
    """Names of the reward functions that may give a number to a row on which a DeepGym reward has no verdict.

    Such a row is trained on as if the answer had scored 0. Empty if there is no DeepGym reward, if it stands
    alone, or if all others are gated by it. Two DeepGym rewards in one list un-mask each other.
    """
    funcs = reward_funcs if isinstance(reward_funcs, (list, tuple)) else [reward_funcs]
    judges = [_judges_of(func) for func in funcs]
    everyone: set[int] = set().union(*judges)
    return [name_of(func) for func, known in zip(funcs, judges, strict=True) if everyone - known]


def _judges_of(func: object) -> set[int]:
    """The DeepGym rewards (by identity) of which each ``None`` makes ``func`` give ``None``."""
    if isinstance(func, Gate):
        return _judges_of(func.by) | _judges_of(func.part.func)
    judge = deepgym_of(func)
    if isinstance(judge, CompositeReward):
        judging = [part.func for part in judge.parts if part.judges]
        return set().union(*(_judges_of(func) or {id(func)} for func in judging))
    return set() if judge is None else {id(judge)}


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _weights(weights: Sequence[float] | None, count: int, owner: str) -> list[float]:
    found = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(found) != count or not all(abs(weight) <= _HEAVIEST for weight in found):
        raise ValueError(
            f"{owner}: weights={weights!r} for {count} parts; give one number of at most {_HEAVIEST:g} for "
            "each part, the DeepGym reward's first"
        )
    return found
