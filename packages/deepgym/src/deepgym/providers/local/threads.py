"""Blocking work in a thread, tidied up after by whoever comes last: the caller, or the thread itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

__all__ = ["in_thread"]

_T = TypeVar("_T")


async def in_thread(function: Callable[[], _T], undo: Callable[[_T | None], None]) -> _T:
    """``function()``, in a thread.

    Whatever this raises, ``undo`` has been called, with what the function returned or ``None``; or will be,
    when the thread is done: a task can be cancelled in a way that no shield holds off.
    """
    lock = threading.Lock()
    gone = over = False
    found: _T | None = None

    def work() -> _T:
        nonlocal over, found
        try:
            found = function()
            return found
        finally:
            with lock:
                over, left = True, gone
            if left:
                undo(found)

    try:
        return await anyio.to_thread.run_sync(work)
    except BaseException:
        with lock:
            gone, finished = True, over
        if finished:
            undo(found)
        raise
