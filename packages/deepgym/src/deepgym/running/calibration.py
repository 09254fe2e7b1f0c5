"""Time limits on this host, now: measured by an environment's own reference.

A time limit was chosen on some machine, at ease. Where a run meets it, the environment's reference is run
here, in a sandbox of its own, once the answer's run is closed. The limits have to leave an answer
``HEADROOM`` times what the reference needed; where they don't, they are multiplied, at most by ``CAP``, and
the answer is graded once more. So an answer's own runs take at most ``1 + CAP`` times its limit, and it has
no part in the measurement but when that is made.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.lowlevel import current_token

from deepgym.contract.evidence import Evidence
from deepgym.contract.verdict import judge
from deepgym.environments.environment import Environment
from deepgym.environments.verify import Cases

from .batch import Deadline, Item
from .cache import Cache

__all__ = ["CAP", "FRESH", "HEADROOM", "Calibration", "ran_out_of_time", "scale_for"]

#: How often the limits must hold what the reference needs.
HEADROOM = 5.0
#: What limits are multiplied by at most, so that an endless loop stays a 0 in bounded time.
CAP = 4.0
#: Seconds for which a measurement holds.
FRESH = 60.0

_log = logging.getLogger(__name__)


class Calibration:
    """What each environment's limits are multiplied by; 1.0 unless a reference showed that it takes more.

    ``measure`` runs an item under limits multiplied by ``CAP`` and returns its evidence, with the time of
    each case.
    """

    def __init__(
        self,
        measure: Callable[[Item, Deadline], Awaitable[Evidence]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure, self._clock = measure, clock
        self._found: Cache[tuple[float, float]] = Cache(1024)
        self._warned: Cache[bool] = Cache(1024)
        self._running: dict[tuple[Any, str], anyio.Event] = {}

    def known(self, item: Item) -> float:
        """The scale as far as it was measured in the last ``FRESH`` seconds; else 1.0."""
        return (self._fresh(_key(item)) or 1.0) if len(self._found) else 1.0

    async def scale(self, item: Item, deadline: Deadline) -> float:
        """The scale by a measurement of the last ``FRESH`` seconds, which is made if there is none.

        1.0 without a reference, if the reference has no full score here, or if ``deadline`` doesn't admit it.
        Runs of one event loop that ask at the same time share one measurement.
        """
        if item.env.reference is None:
            return 1.0
        key = _key(item)
        # Whoever waits in an event loop can only be woken in that loop, and by a process that wasn't forked.
        running = (current_token(), key)
        while True:
            scale = self._fresh(key)
            if scale is not None:
                return scale
            if running in self._running:
                await self._running[running].wait()
                continue
            if not deadline.admits(item.env, CAP):
                return 1.0
            over = self._running[running] = anyio.Event()
            try:
                scale = await self._measured(item, deadline)
                self._found.put(key, (scale, self._clock() + FRESH))
            finally:
                del self._running[running]
                over.set()

    def _fresh(self, key: str) -> float | None:
        scale, until = self._found.get(key) or (1.0, -math.inf)
        return scale if self._clock() < until else None

    async def _measured(self, item: Item, deadline: Deadline) -> float:
        evidence = await self._measure(Item(item.env, item.env.reference or "", item.chosen_seed), deadline)
        result = judge(evidence)
        if result.passed:
            return scale_for(item.env, evidence)
        if not self._warned.get(item.env.digest):
            self._warned.put(item.env.digest, True)
            _log.warning(
                "the time limits of environment %r can't be checked on this host: its own reference "
                "got %s (%s)",
                item.env.name,
                result.score if result.has_verdict else "no verdict",
                result.error or "a wrong result",
            )
        return 1.0


def scale_for(env: Environment, evidence: Evidence) -> float:
    """What ``env``'s limits must be multiplied by, from 1 to ``CAP``, if ``evidence`` is its reference's."""
    limits = env.limits
    sides = [evidence.solution] + ([evidence.verifier] if evidence.verifier is not None else [])
    shares = [
        evidence.execution_time_ms / 1000.0 / limits.wall,
        *(side.cpu_ms / 1000.0 / limits.cpu_seconds for side in sides),
    ]
    if limits.case_timeout is not None:
        shares += [
            case.execution_time_ms / 1000.0 / limits.case_timeout
            for case in evidence.cases or ()
            if case.execution_time_ms is not None
        ]
    wanted = round(HEADROOM * max(shares), 6)
    return min(CAP, max(1.0, math.ceil(wanted * 100.0) / 100.0))


def ran_out_of_time(env: Environment, evidence: Evidence) -> bool:
    """Whether the answer met a time limit: the run's, or a case's own."""
    if not evidence.in_play or evidence.failure is not None:
        return False
    if evidence.clock in ("wall", "cpu"):
        return True
    return env.limits.case_timeout is not None and any(
        case.outcome == "timeout" for case in evidence.cases or ()
    )


def _key(item: Item) -> str:
    verify = item.env.verify
    drawn = verify.draw is not None if isinstance(verify, Cases) else verify.seeded
    return f"{item.env.digest}:{item.chosen_seed}" if drawn else item.env.digest
