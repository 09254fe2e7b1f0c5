"""The order of many runs: who starts when, what is tried again, and what becomes of what didn't start.

Only what stopped before the answer came into play is tried again, a bounded number of times; and a run
whose zygote died is graded once more, alone. A deadline stops admission, never a run in play.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from deepgym.contract.evidence import Evidence, Failure, Fate, Phase, Side
from deepgym.contract.verdict import judge
from deepgym.environments.verify import Cases
from deepgym.exceptions import (
    NetworkError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    VerifierError,
    is_infrastructure_failure,
)
from deepgym.models import RunResult
from deepgym.providers.base import Provider, ZygoteDiedError

from .batch import Deadline, Item
from .calibration import CAP, Calibration, ran_out_of_time
from .observers import Observers
from .run import NotAdmitted, Run, Workshop

__all__ = ["ATTEMPTS", "Schedule", "Ticket", "completed", "failure_of", "unstarted"]

#: Starts of one run, the first included, while nothing came into play.
ATTEMPTS = 3
_NOBODY = Observers(())
_NEVER = Deadline(None, ())
#: Exit status that stands for a verifier that crashed.
_CRASHED = 70
_NO_ROOM = "the batch's deadline left no room for this run"


@dataclass(frozen=True)
class Ticket:
    """One item's place in a batch."""

    item: Item
    index: int = 0
    observers: Observers = _NOBODY
    deadline: Deadline = _NEVER
    submitted: float = field(default_factory=time.monotonic)
    scale: float = 1.0
    """What its time limits are multiplied by."""
    measured: bool = False

    def admitted(self) -> bool:
        """Whether a run that starts now ends before the batch's deadline."""
        return self.deadline.admits(self.item.env, self.scale)

    def scaled(self, scale: float) -> Ticket:
        """The same with its limits multiplied; itself if the deadline leaves no room for that."""
        longer = replace(self, scale=scale)
        return longer if longer.admitted() else self


class Schedule:
    """Runs answers on a provider and has each judged."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._workshop = Workshop(provider)
        self._calibration = Calibration(self._reference)

    async def batch(
        self,
        items: Sequence[Item],
        results: list[RunResult | None],
        parallel: int,
        deadline: Deadline,
        observers: Observers,
    ) -> None:
        """Fill ``results[i]`` with the result of ``items[i]``, ``parallel`` at a time.

        When it is cancelled, what has finished stands in ``results`` and the rest is ``None``.
        """
        queue = iter(range(len(items)))
        submitted = time.monotonic()

        async def worker() -> None:
            for index in queue:
                result = await self._one(Ticket(items[index], index, observers, deadline, submitted))
                results[index] = result
                observers.on_result(index, result)

        if parallel == 1 or len(items) == 1:
            return await worker()
        async with anyio.create_task_group() as group:
            for _ in range(min(parallel, len(items))):
                group.start_soon(worker)

    async def _one(self, ticket: Ticket) -> RunResult:
        if not ticket.admitted():
            return judge(unstarted(ticket.item, "deadline", _NO_ROOM))
        return judge(await self.evidence(ticket))

    async def evidence(self, ticket: Ticket) -> Evidence:
        """Run one answer until it came into play, or its attempts are used up; once more, with more time, if
        it ran out of time and the limits are too tight for its environment's own reference.

        Never raises for what the provider or the answer did; cancellation passes through.
        """
        known = self._calibration.known(ticket.item)
        if known > 1.0:
            ticket = ticket.scaled(known)
        found = await self._attempts(ticket)
        if ticket.scale > 1.0 or not ran_out_of_time(ticket.item.env, found):
            return found
        scale = await self._calibration.scale(ticket.item, ticket.deadline)
        longer = ticket.scaled(scale) if scale > 1.0 else ticket
        return found if longer is ticket else await self._attempts(longer)

    async def _reference(self, item: Item, deadline: Deadline) -> Evidence:
        """What a run of an environment's reference shows, with limits that don't cut it short."""
        return await self._attempts(Ticket(item, deadline=deadline, scale=CAP, measured=True))

    async def _attempts(self, ticket: Ticket) -> Evidence:
        found = await self._once(ticket, 1)
        if _worth_another_try(found) and ticket.admitted():
            found = await self._again(ticket, found)
        return found

    async def _again(self, ticket: Ticket, found: Evidence) -> Evidence:
        """Further attempts; alone from the first on whose zygote died, until one tells."""
        import tenacity

        alone = False
        attempts = itertools.count(2)

        async def once() -> Evidence:
            nonlocal found, alone
            alone = alone or _died_with_zygote(found)
            found = await self._once(ticket, next(attempts), alone)
            if alone and found.in_play and _died_with_zygote(found):
                message = "the run ended its zygote twice, alone the second time"
                found = found.model_copy(update={"failure": Failure(kind="zygote_again", message=message)})
            return found

        return await tenacity.AsyncRetrying(
            stop=lambda state: state.attempt_number >= ATTEMPTS - 1 or not ticket.admitted(),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=2.0),
            retry=tenacity.retry_if_result(_worth_another_try),
            retry_error_callback=lambda state: found,
            sleep=anyio.sleep,
        )(once)

    async def _once(self, ticket: Ticket, attempt: int, alone: bool = False) -> Evidence:
        item, began = ticket.item, time.monotonic()
        run = Run(item.env, item.text, item.chosen_seed, alone, ticket.scale, item.tree, ticket.measured)
        run.admitted = ticket.admitted
        if ticket.observers:
            run.on_phase = lambda phase: ticket.observers.on_phase(ticket.index, phase)
            run.on_phase(Phase.QUEUED)
        failure = None
        try:
            await self._workshop.run(run)
        except NotAdmitted:
            failure = Failure(kind="deadline", message=_NO_ROOM)
        except VerifierError as error:
            run.facts["verifier"] = Side(exit_code=_CRASHED)
            run.facts["verifier_stderr"] = str(error)
        except SandboxDiedError as error:
            failure = _died(run, error)
        except Exception as error:  # noqa: BLE001 - the judge's boundary: any failure of ours is evidence
            failure = failure_of(error)
        run.timings["queue"] = (began - ticket.submitted) * 1000.0
        run.timings["total"] = (time.monotonic() - began) * 1000.0
        return _evidence(item, run, failure, attempt)


def completed(items: Sequence[Item], results: Sequence[RunResult | None]) -> list[RunResult]:
    """Every result; those that are missing, because the batch was stopped, without a verdict."""
    message = "the batch was stopped before this run was over"
    return [
        judge(unstarted(item, "cancelled", message)) if result is None else result
        for item, result in zip(items, results, strict=True)
    ]


def unstarted(item: Item, kind: str, message: str) -> Evidence:
    """The evidence of a run that was never started, or whose end nobody waited for."""
    run = Run(item.env, item.text, item.chosen_seed, tree=item.tree)
    return _evidence(item, run, Failure.model_validate({"kind": kind, "message": message}), 0)


def _evidence(item: Item, run: Run, failure: Failure | None, attempt: int) -> Evidence:
    facts: dict[str, Any] = run.facts
    for name in ("output", "stderr", "verifier_stderr"):
        value = facts.get(name)
        if isinstance(value, bytes):
            facts[name] = value.decode("utf-8", "replace")
    if facts.get("verifier") is None and not isinstance(item.env.verify, Cases):
        facts["verifier"] = Side()
    return Evidence(
        run_id=os.urandom(8).hex(),
        env_name=item.env.name,
        env_digest=item.env.digest,
        answer_sha256=hashlib.sha256(run.text if run.tree is None else run.tree).hexdigest(),
        seed=run.seed,
        failure=failure,
        attempts=attempt,
        limit_scale=run.scale,
        timings=run.timings,
        **facts,
    )


def _died(run: Run, error: SandboxDiedError) -> Failure | None:
    """A sandbox that died: a fact about the run, to be dated like any other, unless its zygote died."""
    if isinstance(error, ZygoteDiedError):
        return failure_of(error)
    phase = Phase.IN_PLAY if run.in_play else Phase.OPENED
    run.facts["solution"] = Side(
        phase=phase, fate=Fate(kind="died", source="channel", message=str(error)[:500])
    )
    return None


def failure_of(error: Exception) -> Failure:
    """Which part of our side an exception came from. Its text is for the reader only."""
    message = f"{type(error).__name__}: {error}"[:1000]
    if isinstance(error, ZygoteDiedError):
        return Failure(kind="zygote", message=message)
    if isinstance(error, NetworkError):
        return Failure(kind="network", message=message)
    if isinstance(error, ProviderError) or (
        not isinstance(error, SandboxError) and is_infrastructure_failure(error)
    ):
        return Failure(kind="provider", message=message)
    return Failure(kind="supervisor", message=message)


def _died_with_zygote(evidence: Evidence) -> bool:
    return evidence.failure is not None and evidence.failure.kind == "zygote"


def _worth_another_try(evidence: Evidence) -> bool:
    """Nothing came into play and no verifier said why; or the run's zygote died with it."""
    if evidence.in_play or evidence.failure is not None:
        return _died_with_zygote(evidence) or not evidence.in_play
    if evidence.verifier is None or evidence.clock is not None or _unplaced(evidence):
        return evidence.verifier is None or evidence.verifier.exit_code != 2
    return False


def _unplaced(evidence: Evidence) -> bool:
    sides = [evidence.solution] + ([evidence.verifier] if evidence.verifier is not None else [])
    return any(
        side.setup_error is not None or side.fate is not None or side.signal is not None for side in sides
    )
