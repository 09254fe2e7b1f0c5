"""Groups: the samples of one prompt, which reach an endpoint as requests of their own."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Hashable
from statistics import fmean

__all__ = ["Groups", "Member"]

#: Seconds for which a group is remembered after its last sample: generations end at different times.
LINGER = 600.0
#: Judged samples whose mean stands in where no sibling was judged.
_RECENT = 1000
#: Judged samples of a group whose size isn't known that are remembered.
_MOST = 256
#: Before any sample was judged at all: the middle of what a score can be.
_MIDDLE = 0.5


class _Group:
    def __init__(self, size: int | None) -> None:
        self.members = 0
        self.open = 0
        """Members that are neither judged nor given up."""
        self.judged: deque[float] = deque(maxlen=size or _MOST)
        self.touched = time.monotonic()
        self.fallback: float | None = None
        self._changed: asyncio.Future[None] | None = None

    def tell(self) -> None:
        self.touched = time.monotonic()
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    def changed(self) -> asyncio.Future[None]:
        """Done as soon as something is told."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed


class Groups:
    """Open groups by key. Belongs to one event loop.

    Args:
        size: ``n_samples_per_prompt`` if it is known: a group is complete with so many members, and the next
            sample of that prompt begins another. Without it only siblings that are here at the time are
            waited for.
        patience: Seconds for which a sibling that isn't here yet is waited for, counted from when something
            last happened in its group.
    """

    def __init__(self, size: int | None = None, patience: float = 120.0) -> None:
        if size is not None and size < 1:
            raise ValueError(f"group_size={size}: at least 1")
        if not patience >= 0:
            raise ValueError(f"sibling_wait={patience}: at least 0 seconds")
        self.size, self.patience = size, patience
        self._groups: dict[Hashable, _Group] = {}
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, key: Hashable) -> Member:
        """A new member of the group ``key``."""
        self._forget()
        group = self._groups.get(key)
        if group is None or (self.size is not None and group.members >= self.size):
            group = self._groups[key] = _Group(self.size)
        group.members += 1
        group.open += 1
        group.tell()
        return Member(self, group)

    def fallback(self) -> float:
        """What stands in where no sibling was judged: the mean of the samples judged last."""
        return _mean(self._recent) if self._recent else _MIDDLE

    def _forget(self) -> None:
        """Look at a few groups, in turn, and drop those that are over."""
        now = time.monotonic()
        for key, group in list(itertools.islice(self._groups.items(), 8)):
            del self._groups[key]
            if group.open or now - group.touched < LINGER:
                self._groups[key] = group


class Member:
    """One sample's place in its group. At most one of ``judged`` and ``mean`` is called; then ``leave``."""

    def __init__(self, groups: Groups, group: _Group) -> None:
        self._groups, self._group = groups, group
        self._left = False

    def judged(self, score: float) -> None:
        """This sample has a verdict."""
        self._group.judged.append(score)
        self._groups._recent.append(score)
        self.leave()

    def leave(self) -> None:
        """This sample isn't waited for any more. Harmless if it has left already."""
        if not self._left:
            self._left = True
            self._group.open -= 1
            self._group.tell()

    async def mean(self, until: float, stop: asyncio.Future[None]) -> float:
        """The judged siblings' mean, once none is waited for any more, ``stop`` is done, or at ``until``.

        Where none was judged by then: ``Groups.fallback``, which is the same for all of a group, for a
        difference between them would become an advantage.
        """
        self.leave()
        group = self._group
        while not stop.done() and (left := self._until(until) - time.monotonic()) > 0:
            await asyncio.wait({group.changed(), stop}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if group.judged:
            return _mean(group.judged)
        if group.fallback is None:
            group.fallback = self._groups.fallback()
        return group.fallback

    def _until(self, until: float) -> float:
        """Until when there is something to wait for."""
        group, size = self._group, self._groups.size
        if group.open:
            return until
        if size is None or group.members >= size:
            return 0.0
        return min(until, group.touched + self._groups.patience)


def _mean(scores: deque[float]) -> float:
    """Of equal scores exactly that score: the least difference becomes an advantage where a group's standard
    deviation divides it.
    """
    return scores[0] if min(scores) == max(scores) else fmean(scores)
