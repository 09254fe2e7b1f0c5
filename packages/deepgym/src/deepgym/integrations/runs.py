"""One run at a time for each place there is, and a result for each, whatever the client does."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from typing import TYPE_CHECKING, Any

import anyio

from deepgym.contract.verdict import judge
from deepgym.integrations.judging import least_deadline
from deepgym.models import RunResult
from deepgym.running.batch import Item
from deepgym.running.schedule import failure_of, unstarted

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym

__all__ = ["Runs", "admits", "plain"]

logger = logging.getLogger(__name__)

#: Seconds that runs may take to end once nobody waits for them, and then a client to close.
_CLOSING = 20.0


class Runs:
    """Runs answers with one client. Belongs to one event loop.

    Each run is a batch of its own, so the room for them is kept here: ``max_parallel``, or what the client
    would start at once in a batch. ``dg`` is ``None`` for a client of its own, with the local sandbox, which
    is opened when it is needed.
    """

    def __init__(self, dg: AsyncDeepGym | None, max_parallel: int | None) -> None:
        if max_parallel is not None and max_parallel < 1:
            raise ValueError(f"max_parallel={max_parallel}: at least one run must be allowed")
        if dg is not None and not inspect.iscoroutinefunction(dg.run_batch):
            raise TypeError(f"dg must be an AsyncDeepGym, got {type(dg).__name__}")
        self._dg, self._own = dg, dg is None
        self._max_parallel = max_parallel
        self._places: anyio.Semaphore | None = None
        self._going: set[asyncio.Task[RunResult]] = set()

    async def graded(
        self, item: Item, start_by: float, until: float, stop: asyncio.Future[None]
    ) -> RunResult:
        """The result of one run, without a verdict if it can't start or doesn't end. Never raises.

        Args:
            start_by: When a run must be able to end, by ``time.monotonic``; it isn't started where its limits
                don't fit in before that.
            until: When it isn't waited for any longer.
            stop: Once it is done, neither.
        """
        if stop.done() or not admits(item, start_by):
            return _unstarted(item)
        run = asyncio.create_task(self._run(item, start_by))
        self._going.add(run)
        run.add_done_callback(self._going.discard)
        try:
            either: set[asyncio.Future[Any]] = {run, stop}
            left = max(0.0, until - time.monotonic())
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            over = run.done()
        finally:
            run.cancel()
        if over and not run.cancelled():
            return run.result()
        if over:
            return judge(unstarted(item, "cancelled", "the client cancelled this run"))
        why = "this run was given up" if stop.done() else "the judge hangs"
        logger.warning("a run has no verdict: %s", why)
        return judge(unstarted(item, "provider", why))

    async def close(self) -> None:
        """Wait for the ends of runs that were given up, and close a client that was opened here."""
        if self._going:
            await asyncio.wait(set(self._going), timeout=_CLOSING)
        if not self._own or self._dg is None:
            return
        client, self._dg = self._dg, None
        try:
            await asyncio.wait_for(client.close(), _CLOSING)
        except Exception:
            logger.warning("the judge couldn't be closed", exc_info=True)

    async def _run(self, item: Item, start_by: float) -> RunResult:
        try:
            client = self._client()
            if self._places is None:
                self._places = anyio.Semaphore(_room(client, self._max_parallel))
            await _acquire(self._places)
            try:
                left = start_by - time.monotonic()
                if left < least_deadline([item.env]):
                    return _unstarted(item)
                batch = await client.run_batch([item.env], [item.answer], deadline=left)
                return batch.results[0]
            finally:
                self._places.release()
        except Exception as error:  # noqa: BLE001 - the adapter's edge: nothing of ours stops a trainer
            failure = failure_of(error)
            logger.warning("a run has no verdict: %s", plain(failure.message))
            return judge(unstarted(item, failure.kind, failure.message))

    def _client(self) -> AsyncDeepGym:
        if self._dg is None:
            from deepgym.client import AsyncDeepGym

            self._dg = AsyncDeepGym()
        return self._dg


def admits(item: Item, start_by: float) -> bool:
    """Whether a run that starts now, and its repetition, end in time."""
    return start_by - time.monotonic() >= least_deadline([item.env])


def plain(text: str) -> str:
    """The text for a log: what not every log can hold, such as half a surrogate pair, is written out."""
    return text.encode("ascii", "backslashreplace").decode()[:1000]


def _unstarted(item: Item) -> RunResult:
    return judge(unstarted(item, "deadline", "no time was left to start this run"))


async def _acquire(places: anyio.Semaphore) -> None:
    try:
        places.acquire_nowait()  # without a turn of the event loop
    except anyio.WouldBlock:
        await places.acquire()


def _room(client: Any, asked: int | None) -> int:
    room: int | None = getattr(getattr(client, "provider", None), "slots", None)
    wanted: int | None = asked or getattr(client, "max_parallel", None)
    if room is None:
        return wanted or os.cpu_count() or 1
    return min(wanted or room, room)
