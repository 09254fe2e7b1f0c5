"""Batches that are stopped while a run is in a given phase."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import anyio

from deepgym import AsyncDeepGym, RunResult
from deepgym.contract.evidence import Phase

from . import faults
from .cells import QUOTA, Cell
from .injector import Injector
from .laws import Expected, check_batch, check_run
from .tasks import TASKS, Answer, answers

__all__ = ["POINTS", "cancel_batches", "close_batches"]

#: Where a run is in each phase.
POINTS = {
    "queued": "ready",
    "opened": "start",
    "placed": "send",
    "in play": "play",
    "reported": "ended",
    "closed": "closed",
}
_SIZE = 10
_CLOSED = 4


def prepared(
    injector: Injector, phase: str, rng: random.Random, action: Callable[[], object], part: str
) -> tuple[str, list[Answer]]:
    """A task and answers to it, one of which does ``action`` in ``phase``."""
    cell = Cell(part, phase, POINTS[phase], faults.doing(action), "true", "true")
    task = rng.choice(("held", "program"))
    chosen = rng.randrange(_SIZE)
    given = answers(_SIZE, rng, {chosen: 0.05 if phase == "in play" else 0.0})
    injector.armed = {given[chosen].text.encode(): (cell, False)}
    injector.attempts.clear()
    return task, given


class _Finished:
    def __init__(self) -> None:
        self.results: dict[int, RunResult] = {}

    def on_phase(self, index: int, phase: Phase) -> None:
        pass

    def on_result(self, index: int, result: RunResult) -> None:
        self.results[index] = result


def cancel_batches(injector: Injector, phase: str) -> None:
    """Cancel the task that awaits a batch, often enough; the same client goes on afterwards."""
    rng = random.Random(f"cancel {phase}")
    ledger = injector.ledger

    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            for _ in range(QUOTA):
                finished = _Finished()
                with anyio.CancelScope() as scope:
                    task, given = prepared(injector, phase, rng, scope.cancel, "cancellation")
                    texts = [answer.text for answer in given]
                    await client.run_batch(TASKS[task], texts, observers=[finished])
                ledger.law(
                    scope.cancelled_caught or len(finished.results) == _SIZE, "cancellation passes through"
                )
                for index, result in finished.results.items():
                    check_run(ledger, index, _expected(given[index]), result)
                injector.armed = {}
                again = answers(2, rng)
                batch = await client.run_batch(TASKS[task], [answer.text for answer in again])
                check_batch(ledger, [_expected(answer) for answer in again], batch)

    anyio.run(main)


def close_batches(injector: Injector, phase: str) -> None:
    """Close the client from another thread: the batch comes back whole, unfinished runs without a verdict."""
    rng = random.Random(f"close {phase}")
    for _ in range(_CLOSED):
        closing = threading.Thread(target=injector.client.close)
        task, given = prepared(injector, phase, rng, closing.start, "cancellation")
        batch = injector.client.run_batch(TASKS[task], [answer.text for answer in given])
        closing.join()
        either = frozenset({"true", "none"})
        expected = [Expected(answer.text.encode(), answer.score, either) for answer in given]
        ledger = injector.ledger
        ledger.law(len(batch.results) == len(given), "nothing is lost", len(batch.results))
        for index, result in enumerate(batch.results):
            check_run(ledger, index, expected[index], result)
            ledger.law(
                result.error_type in (None, "cancelled"), "what is unfinished is cancelled", result.error
            )
    injector.armed = {}


def _expected(answer: Answer) -> Expected:
    return Expected(answer.text.encode(), answer.score)
