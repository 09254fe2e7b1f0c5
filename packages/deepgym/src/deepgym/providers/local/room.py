"""Room for so many sessions at once, first come first served, whatever thread or event loop asks."""

from __future__ import annotations

import threading

import anyio

__all__ = ["Room"]

#: Seconds between two looks of whoever is next, and what each one before adds to that.
_BEAT, _PLACE = 0.005, 0.001


class Room:
    """Counts what is inside; those who wait stand in a row."""

    def __init__(self, count: int) -> None:
        self.count, self.inside = count, 0
        self._waiting: list[object] = []
        self._lock = threading.RLock()  # a collector may end a forgotten session under it

    def _try(self, me: object) -> int | None:
        """``None`` if there was a place and it is taken now; else how many are before ``me``."""
        with self._lock:
            before = self._waiting.index(me)
            if before or self.inside >= self.count:
                return before
            self._waiting.pop(0)
            self.inside += 1
            return None

    async def enter(self) -> None:
        """Wait for a place and take it."""
        me = object()
        with self._lock:
            self._waiting.append(me)
        try:
            while (before := self._try(me)) is not None:
                await anyio.sleep(_BEAT + _PLACE * before)
        except BaseException:
            with self._lock:
                self._waiting.remove(me)
            raise

    def leave(self) -> None:
        """Give a place back."""
        with self._lock:
            self.inside -= 1
