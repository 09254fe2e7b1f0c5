"""From OpenRLHF's samples to what it is answered, whatever happens to the judge."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepgym.integrations.judging import least_deadline
from deepgym.integrations.labels import Labels
from deepgym.integrations.reward import MaskedRate
from deepgym.integrations.runs import Runs, admits, plain
from deepgym.models import RunResult

from .attempts import BUDGET
from .failure import DROPPED, InfraFailureScore, waits
from .samples import Sample, sample_of
from .siblings import Groups, Member
from .tally import Tally
from .wire import Query, answer

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym.environments import Environment

__all__ = ["Grading", "fits", "log_of"]

logger = logging.getLogger(__name__)

#: Errors of a provider or the network: graded once more.
_OURS = frozenset({"provider_error", "network_error"})
#: Seconds of the budget, or a tenth of it, that are kept for siblings that are still being judged.
_FOR_SIBLINGS = 60.0


def fits(envs: Sequence[Environment], budget: float = BUDGET) -> None:
    """Make sure that a run and its repetition end before OpenRLHF gives up.

    Raises:
        ValueError: an environment's limits are too long; the message has them.
    """
    for env in envs:
        least = least_deadline([env])
        if least > budget - _reserve(budget):
            raise ValueError(
                f"environment {env.name!r}: one run and its repetition may take {least:g} s by its "
                f"limits.wall={env.limits.wall:g}, but an answer is due after {budget:g} s, of which "
                f"{_reserve(budget):g} s are kept for siblings; later OpenRLHF gives up, and the training "
                "run ends. Lower limits.wall"
            )


class Grading:
    """Grades samples with one client. Belongs to one event loop.

    ``answer`` and ``result`` never raise for what a provider, the judge or a sample did.

    Args:
        labels: Where a sample's environment is found.
        dg: The client; ``None`` for one of its own, with the local sandbox.
        infra_failure_score: As ``failure.checked`` returns it.
        group_size, sibling_wait: See ``Groups``.
        max_parallel: Runs at once; by default what the client runs at once in a batch.
        budget: Seconds from a request's arrival within which it is answered.
    """

    def __init__(
        self,
        labels: Labels,
        dg: AsyncDeepGym | None,
        infra_failure_score: InfraFailureScore,
        *,
        group_size: int | None = None,
        max_parallel: int | None = None,
        sibling_wait: float = 120.0,
        budget: float = BUDGET,
    ) -> None:
        fits(labels.declared, budget)
        self.labels = labels
        self.score = infra_failure_score
        self.budget = budget
        self.tally = Tally()
        self._runs = Runs(dg, max_parallel)
        self._groups = Groups(group_size, sibling_wait)
        self._masked = MaskedRate("deepgym_openrlhf")
        self._stops: set[asyncio.Future[None]] = set()
        self.stopped = False

    def sample(self, query: Query) -> Sample:
        """What is to be graded of a query. Never raises; needs no event loop."""
        return sample_of(self.labels, query, lambda env: fits([env], self.budget))

    async def answer(
        self, samples: Sequence[Sample], arrived: float, stop: asyncio.Future[None]
    ) -> dict[str, Any]:
        """OpenRLHF's answer to one request, item *i* for sample *i*.

        Args:
            arrived: When the request came, by ``time.monotonic``.
            stop: Once it is done, what isn't judged is answered as what has no verdict.
        """
        self._stops.add(stop)
        if self.stopped and not stop.done():
            stop.set_result(None)
        try:
            until = arrived + self.budget
            going = [self._sample(sample, until, stop) for sample in samples]
            # One sample needs no task of its own, and a request of today's clients has one.
            found = [await going[0]] if len(going) == 1 else await asyncio.gather(*going)
            rewards, scores, logs = zip(*found, strict=True) if found else ((), (), ())
            return answer(rewards, scores, logs)
        finally:
            self._stops.discard(stop)

    async def result(self, label: object, response: str, until: float) -> RunResult:
        """The result of a response alone, at ``until`` (by ``time.monotonic``) at the latest."""
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stops.add(stop)
        if self.stopped:
            stop.set_result(None)
        try:
            # A whole prompt is taken off exactly, so that nothing in the response passes for one.
            sample = self.sample(Query(f"\n{response}", "\n", label))
            return await self._result(sample, until, stop)
        finally:
            self._stops.discard(stop)

    def stop(self) -> None:
        """Give up what isn't judged yet: it is answered as what has no verdict, and nothing new is begun."""
        self.stopped = True
        for stop in self._stops:
            if not stop.done():
                stop.set_result(None)

    async def close(self) -> None:
        """Wait for the ends of runs that were given up, and close the client that was opened here."""
        await self._runs.close()

    async def _sample(
        self, sample: Sample, until: float, stop: asyncio.Future[None]
    ) -> tuple[float, float, dict[str, float]]:
        began = time.monotonic()
        member = self._groups.join(sample.group)
        try:
            result = await self._result(sample, until, stop)
            if result.has_verdict:
                member.judged(result.score)
                numbers = (result.score, result.score)
            else:
                numbers = await self._without_verdict(member, until, stop)
        finally:
            member.leave()
        seconds = time.monotonic() - began
        self.tally.count(result, seconds)
        self._masked.record(result)
        return (*numbers, log_of(result, seconds))

    async def _without_verdict(
        self, member: Member, until: float, stop: asyncio.Future[None]
    ) -> tuple[float, float]:
        """Reward and score of a sample that has no verdict."""
        score = self.score
        if not waits(score):
            number = math.nan if isinstance(score, str) else score
            return number, number
        mean = await member.mean(until, stop)
        return mean, (DROPPED if score == "drop_group" else mean)

    async def _result(self, sample: Sample, until: float, stop: asyncio.Future[None]) -> RunResult:
        """The sample's result; without a verdict where it can't be graded at all."""
        item = sample.item
        if item is None:
            self.tally.unreadable += 1
            logger.error("a sample can't be graded: %s", plain(sample.error))
            return RunResult(score=0.0, error_type="other", error=plain(sample.error))
        start_by = until - _reserve(self.budget)
        result = await self._runs.graded(item, start_by, until, stop)
        if result.error_type in _OURS and not stop.done() and admits(item, start_by):
            self.tally.again += 1
            result = await self._runs.graded(item, start_by, until, stop)
        return result


def log_of(result: RunResult, seconds: float) -> dict[str, float]:
    """What OpenRLHF logs as a mean of each step: the same names for every sample.

    ``score`` alone would hide the trainer's own number of that name.
    """
    judged = result.has_verdict
    return {
        "deepgym_verdict": float(judged),
        "no_verdict": float(not judged),
        "deepgym_score": result.score if judged else 0.0,
        "deepgym_pass": float(judged and result.passed),
        "deepgym_latency_s": seconds,
    }


def _reserve(budget: float) -> float:
    return min(_FOR_SIBLINGS, budget / 10.0)
