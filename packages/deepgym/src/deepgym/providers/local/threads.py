"""Blocking work in a thread, tidied up after by whoever comes last: the caller, or the thread itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio.to_thread

__all__ = ["in_thread"]

_T = TypeVar("_T")


class _Work(Generic[_T]):
    """A function, how far it got, and whether anybody still waits for it."""

    def __init__(self, function: Callable[[], _T], undo: Callable[[_T | None], None]) -> None:
        self._function, self._undo = function, undo
        self._lock = threading.Lock()
        self._begun = self._gone = self._over = False
        self._found: _T | None = None

    def run(self) -> _T:
        with self._lock:
            if self._gone:
                raise RuntimeError("nobody waits for this any more")
            self._begun = True
        try:
            self._found = found = self._function()
            return found
        finally:
            if self._end():
                self._undo(self._found)

    def _end(self) -> bool:
        """Over: whether the caller has gone."""
        with self._lock:
            self._over = True
            return self._gone

    def leave(self) -> None:
        """The caller goes without a result."""
        with self._lock:
            self._gone = True
            mine = self._over or not self._begun
        if mine:
            self._undo(self._found)


async def in_thread(function: Callable[[], _T], undo: Callable[[_T | None], None]) -> _T:
    """``function()``, in a thread.

    Whatever this raises, ``undo`` has been called, with what the function returned or ``None``; or will be,
    when the thread is done: a task can be cancelled in a way that no shield holds off.
    """
    work = _Work(function, undo)
    try:
        return await anyio.to_thread.run_sync(work.run)
    except BaseException:
        work.leave()
        raise
