"""The reward function of episodes: grades what TRL's ``environments`` have played, side by side."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepgym.contract.evidence import Failure
from deepgym.integrations.episodes import grading_seconds, unjudged
from deepgym.integrations.judging import GRACE, share_of_ranks
from deepgym.models import BatchResult, RunResult
from deepgym.running.observers import Observers

from .base import DDP_TIMEOUT, BatchReward
from .episodes_grading import grade_all
from .episodes_play import Episode
from .episodes_rows import EpisodeColumn
from .memory import Rewards
from .metrics import LogExtra, LogMetric, log_batch

if TYPE_CHECKING:
    from deepgym.environments import MultiTurnEnvironment
    from deepgym.running.observers import Observer

__all__ = ["EpisodeReward", "episode_reward"]

#: Gradings at once with a provider that doesn't say how many runs it has room for.
_AT_ONCE = 32
logger = logging.getLogger(__name__)


class EpisodeReward(BatchReward):
    """``reward_funcs=[episode_reward()]``, for a trainer whose ``environment_factory`` is DeepGym's.

    Args:
        name: In TRL's log: ``rewards/<name>/mean``.
        max_parallel: Gradings at once of this host's ranks together; with a remote provider, of all ranks.
        deadline: Seconds after which a call starts no more gradings; those episodes get ``None``, and what is
            being graded ends by its own limits. By default not quite half of ``ddp_timeout``.
        ddp_timeout: What the trainer's ``ddp_timeout`` is: no call takes longer.
        observers: Told of each episode's result.
        masked: ``False`` if ``None`` doesn't go to TRL as it is, so that TRL's version doesn't matter.
        rows: Which environment a row is for; ``EpisodeFactory.reward_fn`` gives the factory's.

    Every rollout is graded as it stands, whether it was submitted, was cut at ``max_completion_length`` or
    ``max_tool_calling_iterations``, or never called a tool. Sync and picklable.

    Raises:
        ValueError: the deadline doesn't fit between an environment's limits and ``ddp_timeout``.
        UnsupportedTRLError: the installed TRL would train on an episode without a verdict as on a 0.
    """

    def __init__(
        self,
        *,
        name: str = "deepgym",
        max_parallel: int | None = None,
        deadline: float | None = None,
        ddp_timeout: float = DDP_TIMEOUT,
        observers: Sequence[Observer] = (),
        masked: bool = True,
        rows: EpisodeColumn | None = None,
    ) -> None:
        super().__init__(name=name, deadline=deadline, ddp_timeout=ddp_timeout, masked=masked)
        self.max_parallel = max_parallel
        self.grace = GRACE
        self.observers = tuple(observers)
        self.rows = EpisodeColumn(None, "env_id") if rows is None else rows
        for env in self.rows.declared:
            self._fit(env)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        *,
        trainer_state: object = None,
        log_metric: LogMetric | None = None,
        log_extra: LogExtra | None = None,
        environments: Sequence[Any] | None = None,
        **columns: Any,
    ) -> Rewards:
        """The reward of each rollout: a finite float, or ``None`` without a verdict or for an environment
        that isn't DeepGym's. In at most ``deadline + 30`` seconds, whatever hangs.

        Raises:
            ValueError: the trainer gave no ``environments``, or not one for each completion. Never for what
                the infrastructure did.
        """
        self._look_at_trainer(log_metric)
        if (early := self._memory.owed(completions)) is not None:
            return early
        began = time.monotonic()
        results = self._graded(completions, environments)
        self._log(results, prompts, time.monotonic() - began, log_metric, log_extra)
        rewards = [None if result is None else result.reward for result in results]
        return self._memory.keep(completions, rewards, given=True)

    def results(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        environments: Sequence[Any] | None = None,
        **columns: Any,
    ) -> BatchResult:
        """The full results, in order; raises as a call does. An episode is graded once only."""
        results = self._graded(completions, environments)
        return BatchResult(results=tuple(_FOREIGN if result is None else result for result in results))

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise what the environment's ``reset`` would raise for a row of the dataset.

        Raises:
            ValueError, UnknownNameError, InvalidEnvironmentError: the row names no environment for episodes,
                or one whose limits don't fit the deadline.
        """
        self._fit(self.rows.choose(row))

    def _graded(
        self, completions: Sequence[Any], environments: Sequence[Any] | None
    ) -> list[RunResult | None]:
        if environments is None:
            raise ValueError(
                "the trainer gave no environments to grade: pass GRPOTrainer environment_factory="
                "make_environment_factory(...). AsyncGRPOTrainer never gives any: there, leave this reward "
                "function out and pass make_environment_factory(..., owns_reward=True)"
            )
        if len(environments) != len(completions):
            raise ValueError(f"{len(environments)} environments for {len(completions)} completions")
        played = [getattr(one, "_deepgym_episode", _FOREIGN) for one in environments]
        episodes = [one for one in played if isinstance(one, Episode)]
        graded = iter(grade_all(episodes, self._parallel(episodes), self.deadline, self.grace))
        results: list[RunResult | None] = [
            next(graded) if isinstance(one, Episode) else None if one is _FOREIGN else _UNPLAYED
            for one in played
        ]
        watching = Observers(self.observers)
        for index, result in enumerate(results):
            if result is not None:
                watching.on_result(index, result)
        _say(results)
        return results

    def _parallel(self, episodes: Sequence[Episode]) -> int:
        provider = episodes[0].client.provider if episodes else None
        return share_of_ranks(provider, self.max_parallel) or _AT_ONCE

    def _log(
        self,
        results: Sequence[RunResult | None],
        prompts: Sequence[Any],
        seconds: float,
        log_metric: LogMetric | None,
        log_extra: LogExtra | None,
    ) -> None:
        ours = [
            (result, prompt) for result, prompt in zip(results, prompts, strict=True) if result is not None
        ]
        batch = BatchResult(results=tuple(result for result, _ in ours))
        log_batch(batch, [prompt for _, prompt in ours], seconds, log_metric, None)
        every = tuple(_FOREIGN if result is None else result for result in results)
        log_batch(BatchResult(results=every), prompts, seconds, None, log_extra)

    def _fit(self, env: MultiTurnEnvironment) -> None:
        if (seconds := grading_seconds(env)) > self.deadline:
            raise ValueError(
                f"environment {env.name!r}: a deadline of {self.deadline:g} s can't hold one grading, which "
                f"may take {seconds:g} s by its limits.verify={env.limits.verify:g}. Raise deadline (and "
                "ddp_timeout), or lower limits.verify"
            )


#: In the place of an environment that isn't DeepGym's, and of one that was never reset.
_FOREIGN = RunResult(score=0.0, error_type="other", error="not an episode of DeepGym's")
_UNPLAYED = unjudged(Failure(kind="supervisor", message="the environment was never reset"))


def _say(results: Sequence[RunResult | None]) -> None:
    lost = [result for result in results if result is not None and not result.has_verdict]
    if lost:
        kinds = Counter(result.error_type or "other" for result in lost)
        listed = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        text = f"no verdict for {len(lost)} of {len(results)} episodes ({listed}); the first: {lost[0].error}"
        logger.warning("%s", text)


def episode_reward(**options: Any) -> EpisodeReward:
    """The reward function over ``environments``; arguments and errors are those of ``EpisodeReward``."""
    return EpisodeReward(**options)
