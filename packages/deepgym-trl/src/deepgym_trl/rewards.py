"""The reward function that TRL's GRPO and RLOO trainers call.

Unpack TRL's batch, have it judged, pack the rewards: a float in [0, 1], or ``None`` where the run has no
verdict. TRL 1.6 and later leave a row out of its group's baseline if every reward function returned ``None``.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepgym.extract import Completion
from deepgym.integrations.judging import Judging, least_deadline, share_of_ranks
from deepgym.models import BatchResult
from deepgym.rewards import RewardFunction

from .base import DDP_TIMEOUT, BatchReward
from .memory import Rewards
from .metrics import LogExtra, LogMetric, log_batch
from .rows import EnvironmentColumn

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.running.observers import Observer

    from .rows import Envs

__all__ = ["TRLReward", "make_async_trl_reward_fn", "make_trl_reward_fn", "reward"]  # noqa: F822 - __getattr__


class TRLReward(BatchReward):
    """A reward function for TRL: ``reward_funcs=[TRLReward("coin_change")]``.

    Args:
        env: The environment of every row, or its name or folder; several (or a suite), of which a row names
            one in ``env_column``; or ``None``: a row may name any.
        name: In TRL's log: ``rewards/<name>/mean``.
        env_column: The dataset's column with the environment's name.
        extract: How a completion becomes code: its last fenced block, ``False`` for as it is, or a function.
        dg: The client; by default one with the local sandbox, opened at the first call.
        max_parallel: Runs at once of this host's ranks together; with a remote provider, of all ranks.
        deadline: Seconds after which a call starts no more runs; those get ``None``, and those that run end
            by their own limits. By default not quite half of ``ddp_timeout``.
        ddp_timeout: What the trainer's ``ddp_timeout`` is: no call takes longer.
        observers: Told of each run's result.
        masked: ``False`` if ``None`` doesn't go to TRL as it is, so that TRL's version doesn't matter.

    Sync, picklable, usable in forks and threads. For the async form see ``make_async_trl_reward_fn``.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment, or it isn't valid.
        ValueError: the deadline doesn't fit between an environment's limits and ``ddp_timeout``.
        UnsupportedTRLError: the installed TRL would train on a run without a verdict as on a 0.
    """

    def __init__(
        self,
        env: Envs | None = None,
        *,
        name: str = "deepgym",
        env_column: str = "env_id",
        extract: bool | Callable[[Completion], str] = True,
        dg: DeepGym | None = None,
        max_parallel: int | None = None,
        deadline: float | None = None,
        ddp_timeout: float = DDP_TIMEOUT,
        observers: Sequence[Observer] = (),
        masked: bool = True,
    ) -> None:
        super().__init__(name=name, deadline=deadline, ddp_timeout=ddp_timeout, masked=masked)
        self.rows = EnvironmentColumn(env, env_column)
        self.max_parallel = max_parallel
        rewards = RewardFunction(dg=dg, extract=extract, observers=observers)
        self._judging = Judging(rewards, self.deadline)
        self._fit(self.rows.declared)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        completion_ids: Sequence[Any] | None = None,
        *,
        trainer_state: object = None,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        environments: object = None,
        **columns: Any,
    ) -> Rewards:
        """The reward of each completion: a finite float, or ``None`` without a verdict.

        Shapes: all sequences have one item for each completion of this rank's batch, siblings side by side.

        Raises:
            ValueError, TypeError, UnknownNameError: a column is missing, a row names no environment, or a
                completion is neither text nor a conversation. Never for what the infrastructure did.
        """
        self._look_at_trainer(log_metric)
        if (rewards := self._memory.owed(completions)) is not None:
            return rewards
        batch, seconds = self._judge(prompts, completions, columns)
        return self._pack(prompts, completions, batch, seconds, log_metric, log_extra)

    def results(
        self, prompts: Sequence[Any], completions: Sequence[Completion], **columns: Any
    ) -> BatchResult:
        """The full results, in order; raises as a call does."""
        return self._judge(prompts, completions, columns)[0]

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise what a call would raise for a row of the dataset.

        Raises:
            ValueError, UnknownNameError, InvalidEnvironmentError: as ``__call__``; and for an environment
                whose limits don't fit the deadline.
        """
        columns = {name: [value] for name, value in row.items() if name != "prompt"}
        self._fit(self.rows.choose(1, columns))

    def close(self) -> None:
        """Close the client that was opened here. It is opened anew if it is needed again."""
        self._judging.rewards.close()

    def _judge(
        self, prompts: Sequence[Any], completions: Sequence[Completion], columns: Mapping[str, Any]
    ) -> tuple[BatchResult, float]:
        began = time.monotonic()
        if len(prompts) != len(completions):
            raise ValueError(f"{len(prompts)} prompts for {len(completions)} completions")
        envs = self.rows.choose(len(completions), columns)
        rewards = self._judging.rewards
        rewards.max_parallel = share_of_ranks(rewards.client().provider, self.max_parallel)
        return self._judging.results(completions, envs), time.monotonic() - began

    def _pack(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        batch: BatchResult,
        seconds: float,
        log_metric: LogMetric | None,
        log_extra: LogExtra | None,
    ) -> Rewards:
        log_batch(batch, prompts, seconds, log_metric, log_extra)
        return self._memory.keep(completions, batch.rewards, given=True)

    def _fit(self, envs: Sequence[Any]) -> None:
        for env in envs:
            if (least := least_deadline([env])) > self.deadline:
                raise ValueError(
                    f"environment {env.name!r}: a deadline of {self.deadline:g} s can't hold one run and its "
                    f"repetition, which may take {least:g} s by its limits.wall={env.limits.wall:g}. Raise "
                    "deadline (and ddp_timeout), or lower limits.wall"
                )


def make_trl_reward_fn(env: Envs | None = None, **options: Any) -> TRLReward:
    """A sync reward function; arguments and errors are those of ``TRLReward``."""
    return TRLReward(env, **options)


def make_async_trl_reward_fn(
    env: Envs | None = None, **options: Any
) -> Callable[..., Coroutine[Any, Any, Rewards]]:
    """The same as a real ``async def`` function, which every TRL from 1.6 on awaits; it pickles too.

    TRL awaits async reward functions side by side, after the sync ones; none of them runs while it generates.
    Arguments and errors are those of ``TRLReward``, which is the result's ``args[0]``.
    """
    made = functools.partial(_rewarded, TRLReward(env, **options))
    made.__name__ = made.args[0].__name__  # type: ignore[attr-defined]
    return made


async def _rewarded(
    reward: TRLReward,
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    completion_ids: Sequence[Any] | None = None,
    *,
    trainer_state: object = None,
    log_metric: LogMetric | None = None,
    log_extra: LogExtra | None = None,
    environments: object = None,
    **columns: Any,
) -> Rewards:
    reward._look_at_trainer(log_metric)
    if (rewards := reward._memory.owed(completions)) is not None:
        return rewards
    batch, seconds = await asyncio.to_thread(reward._judge, prompts, completions, columns)
    return reward._pack(prompts, completions, batch, seconds, log_metric, log_extra)


_default: TRLReward | None = None


def __getattr__(name: str) -> TRLReward:
    """``reward``: each row names its environment in the column ``env_id``."""
    global _default
    if name != "reward":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _default is None:
        _default = TRLReward()
    return _default
