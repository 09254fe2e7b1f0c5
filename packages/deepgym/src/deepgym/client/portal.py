"""An event loop in a thread of its own, and a way to call into it: how the sync API drives the async one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

__all__ = ["Call", "Portal"]

_T = TypeVar("_T")
#: Seconds that a stopped call may take to clean up after itself.
_GRACE = 15.0


class Portal:
    """A daemon thread with an event loop. Works where the caller's own thread runs a loop already."""

    def __init__(self) -> None:
        self._portal: BlockingPortal
        self._loop: asyncio.AbstractEventLoop
        self._gate = threading.Lock()
        self._over = False
        self._calls: weakref.WeakSet[Call[Any]] = weakref.WeakSet()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="deepgym", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        from anyio.from_thread import BlockingPortal

        async def main() -> None:
            async with BlockingPortal() as portal:
                self._portal, self._loop = portal, asyncio.get_running_loop()
                started.set()
                await portal.sleep_until_stopped()

        anyio.run(main)

    def start(self, function: Callable[[], Awaitable[_T]]) -> Call[_T]:
        """Start ``await function()`` in the loop."""
        call = Call(self._portal.start_task_soon, function)
        with self._gate:
            self._calls.add(call)
        return call

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> Call[_T]:
        """Have ``await function()`` started in the loop, without waiting for that: for tasks of another loop.

        Raises:
            RuntimeError: the loop has ended.
        """
        # What is handed over before the loop is told to end is cancelled there, and never forgotten.
        with self._gate:
            if self._over:
                raise RuntimeError("the client's event loop has ended")
            call = Call(lambda run: asyncio.run_coroutine_threadsafe(run(), self._loop), function)
            self._calls.add(call)
        return call

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """``await function()`` in the loop. Ctrl-C stops it, waits for its clean-up and is raised again."""
        started = self.start(function)
        try:
            return started.result()
        except KeyboardInterrupt:
            started.stop()
            raise

    def stop_calls(self) -> None:
        """Cancel what other threads have running here, and wait for its clean-up."""
        with self._gate:
            calls = list(self._calls)
        for call in calls:
            call.stop()

    def stop(self) -> None:
        """End the loop and its thread."""
        with self._gate:
            self._over = True
        self._portal.call(self._portal.stop)
        self._thread.join(_GRACE)

    def stop_soon(self) -> None:
        """End the loop without waiting, from wherever a forgotten client is collected."""
        self._over = True  # without the lock: nobody else is left who could start anything
        if self._thread.is_alive():
            self._portal.start_task_soon(self._portal.stop)


class Call(Generic[_T]):
    """One function that runs in a portal's loop."""

    def __init__(
        self,
        start: Callable[[Callable[[], Coroutine[Any, Any, _T]]], concurrent.futures.Future[_T]],
        function: Callable[[], Awaitable[_T]],
    ) -> None:
        self._function = function
        self._begun, self._over = threading.Event(), threading.Event()
        self.future: concurrent.futures.Future[_T] = start(self._run)
        """What the function returns or raises, once it is over; cancelled, it stops the function."""

    async def _run(self) -> _T:
        self._begun.set()
        try:
            return await self._function()
        finally:
            self._over.set()

    def result(self) -> _T:
        """What the function returns or raises."""
        return self.future.result()

    def stop(self) -> None:
        """Cancel it, and wait until it has cleaned up after itself."""
        if self.future.cancel() and self._begun.is_set():
            self._over.wait(_GRACE)
