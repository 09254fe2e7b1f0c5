"""Requests that come again: an attempt that its client gave up isn't graded twice.

OpenRLHF waits 180 s for an answer, closes the connection and sends the same bytes again. Whose connection is
still open can't be a repetition: equal bytes are then a sibling that says the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from .wire import ATTEMPT_SECONDS, ATTEMPTS, PAUSE

__all__ = ["BUDGET", "Attempts", "Work"]

T = TypeVar("T")

#: Seconds from a request's first arrival within which it must be answered: OpenRLHF's attempts, less what it
#: takes to notice a closed connection and to send an answer.
BUDGET = ATTEMPTS * ATTEMPT_SECONDS + (ATTEMPTS - 1) * PAUSE - 30.0


class Work(Generic[T]):
    """What one request asked for: it goes on whatever becomes of the connection."""

    def __init__(self, key: bytes, begin: Callable[[asyncio.Future[None]], Coroutine[Any, Any, T]]) -> None:
        self.key = key
        self.left = 0.0
        """When its client closed the connection, if it has."""
        self._stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[T] = asyncio.create_task(begin(self._stop))

    def give_up(self) -> None:
        """End it with what there is so far."""
        if not self._stop.done():
            self._stop.set_result(None)


class Attempts(Generic[T]):
    """The work that is going on, and that whose client has gone. Belongs to one event loop.

    ``patience``: seconds after which a client that left won't come again.
    """

    def __init__(self, patience: float = ATTEMPT_SECONDS) -> None:
        self.patience = patience
        self._going: set[Work[T]] = set()
        self._left: OrderedDict[Work[T], None] = OrderedDict()
        self._by_key: dict[bytes, deque[Work[T]]] = {}

    @property
    def going(self) -> int:
        """Requests whose client is still there."""
        return len(self._going)

    @property
    def left(self) -> int:
        """Requests whose client has gone and may come again."""
        return len(self._left)

    def attach(
        self, key: bytes, begin: Callable[[asyncio.Future[None]], Coroutine[Any, Any, T]]
    ) -> tuple[Work[T], bool]:
        """The work for a body, begun now or by an earlier attempt; and whether by that.

        Args:
            key: The body's hash.
            begin: Does the work; it is given a future that is done when the work should end early.
        """
        self._forget()
        again = key in self._by_key
        work = self._by_key[key][0] if again else Work(key, begin)
        if again:
            self._drop(work)
        self._going.add(work)
        return work, again

    def answered(self, work: Work[T]) -> None:
        """Its answer was sent: equal bytes that come from now on are another sample."""
        self._going.discard(work)

    def gone(self, work: Work[T]) -> None:
        """Its client closed the connection before there was an answer, and may send the same again."""
        self._going.discard(work)
        work.left = time.monotonic()
        self._left[work] = None
        self._by_key.setdefault(work.key, deque()).append(work)
        self._forget()

    async def settle(self, seconds: float) -> None:
        """Wait until all work is done, but no longer than ``seconds``."""
        tasks = [work.task for work in (*self._going, *self._left)]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _forget(self) -> None:
        """Give up what no client comes for any more."""
        late = time.monotonic() - self.patience
        while self._left and (work := next(iter(self._left))).left < late:
            self._drop(work)
            work.give_up()

    def _drop(self, work: Work[T]) -> None:
        del self._left[work]
        waiting = self._by_key[work.key]
        waiting.remove(work)
        if not waiting:
            del self._by_key[work.key]
