"""Blocking calls for whose end one needn't wait, and sessions that are closed where nobody waits for it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from deepgym.exceptions import DeepGymError

__all__ = ["Closable", "Closer", "OverdueError", "Patience", "Pending"]

_T = TypeVar("_T")
#: Seconds that the process's end may wait for the closing of what is still open.
_AT_EXIT = 5.0
#: Seconds of patience after a call that hung.
_IMPATIENT = 5.0
#: How many times as long a call may take while others end.
_TURNS = 3

_log = logging.getLogger(__name__)
_now = time.monotonic


class OverdueError(DeepGymError):
    """A call didn't end in time. It may still go on, in its own thread."""


class Pending(Generic[_T]):
    """``function()`` in a daemon thread of its own.

    Raises:
        RuntimeError: no thread can be had.
    """

    def __init__(self, function: Callable[[], _T]) -> None:
        self.future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        threading.Thread(
            target=_run, args=(function, self.future), name="deepgym-episode", daemon=True
        ).start()

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end, so long at most."""
        return bool(concurrent.futures.wait([self.future], max(0.0, seconds)).done)

    def result(self, seconds: float, what: str) -> _T:
        """What the function returns or raises.

        Raises:
            OverdueError: it is still on after so many seconds.
        """
        if not self.ends_within(seconds):
            raise OverdueError(what)
        return self.future.result()


def _run(function: Callable[[], _T], future: concurrent.futures.Future[_T]) -> None:
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - raised where the result is asked for
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - a cancellation of ours mustn't look like the caller's own
        future.set_exception(RuntimeError(f"{type(error).__name__} in a thread: {error}"))


class Patience:
    """Seconds beyond their own limits for which calls are waited for. Few after one that hung, until one has
    ended again: a trainer steps in one rollout after another, and its other ranks don't wait for ever.
    """

    def __init__(self, seconds: float) -> None:
        self.full = seconds
        self.hangs = 0
        """How many calls have hung."""
        self._hung = False
        self._alive = 0.0

    @property
    def seconds(self) -> float:
        """For a call that begins now."""
        return min(self.full, _IMPATIENT) if self._hung else self.full

    def alive(self) -> None:
        """A call has ended, so not everything hangs."""
        self._hung = False
        self._alive = _now()

    def hung(self) -> None:
        """A call didn't end in time."""
        self._hung = True
        self.hangs += 1

    def result(self, pending: Pending[_T], seconds: float, what: str, began: float | None = None) -> _T:
        """What the function of ``pending`` returns or raises.

        While other calls end, it may only be waiting for its turn: it is overdue when nothing has ended for
        so many seconds, or three times as many are over.

        Raises:
            OverdueError: it is.
        """
        began = _now() if began is None else began
        while not pending.ends_within(self._until(began, seconds) - _now()):
            if _now() >= self._until(began, seconds):
                self.hung()
                raise OverdueError(what)
        self.alive()
        return pending.future.result()

    def _until(self, began: float, seconds: float) -> float:
        return min(max(began, self._alive) + seconds, began + _TURNS * seconds)


class Closable(Protocol):
    """A session, as far as it is closed here."""

    def close(self) -> None: ...


class Closer:
    """Closes sessions one after another in a daemon thread. The process's end waits a little for it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # Its put may be interrupted by a collector that puts, too.
        self._queue: queue.SimpleQueue[Closable | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._queue.put, None).atexit = False
        _closers.add(self)
        _wait_at_exit()

    def watch(self, owner: object, session: Closable) -> weakref.finalize[..., object]:
        """Close ``session`` when ``owner`` is collected, at the end of the process, or when the result is
        called. Returns at once each time. Never raises: without a thread to be had, the next one closes it.
        """
        if self._thread is None:
            thread = threading.Thread(
                target=_close_all, args=(self._queue,), name="deepgym-closing", daemon=True
            )
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread
        return weakref.finalize(owner, self._queue.put, session)

    def finish(self, seconds: float) -> None:
        """Wait until all that was put is closed; closes nothing any more afterwards."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(seconds)


def _close_all(waiting: queue.SimpleQueue[Closable | None]) -> None:
    while (session := waiting.get()) is not None:
        try:
            session.close()
        except Exception:  # noqa: BLE001 - clean-up never changes a verdict
            _log.warning("an episode's session wasn't closed cleanly", exc_info=True)
        del session


_closers: weakref.WeakSet[Closer] = weakref.WeakSet()
_pid = 0


def _wait_at_exit() -> None:
    """Once in a process, and before it has any session: what is registered first is called last."""
    global _pid
    if _pid != os.getpid():
        _pid = os.getpid()
        weakref.finalize(Closer, _finish_all, _pid)


def _finish_all(pid: int) -> None:
    if pid == os.getpid():
        for closer in list(_closers):
            closer.finish(_AT_EXIT)
