"""Bodies of requests, read only as far as there is room for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["Claim", "GoneError", "Room", "SlowError", "TooLongError"]

Receive: TypeAlias = "Callable[[], Awaitable[MutableMapping[str, Any]]]"

#: Seconds without a byte after which a body isn't waited for any longer.
PATIENCE = 20.0


class TooLongError(Exception):
    """The body is longer than a body may be."""


class SlowError(Exception):
    """The rest of the body didn't come."""


class GoneError(Exception):
    """The client closed the connection before its body was complete."""


class Room:
    """Room for ``size`` bytes of requests, whose bodies have at most ``most``. Belongs to one event loop.

    What a request has sent is counted, not what it says that it will send. When the room is full, further
    bytes stay unread in order of arrival; the oldest of the bodies that aren't complete may go beyond it, so
    that one always gets on. Thousands of requests at once cost their connections and no more.
    """

    def __init__(self, size: int, most: int, patience: float = PATIENCE) -> None:
        if not 0 < most <= size:
            raise ValueError(f"max_body={most}: from 1 to {size} bytes")
        self.size, self.most, self.patience = size, most, patience
        self.taken = 0
        self._reading: dict[Claim, None] = {}
        self._waiting: dict[Claim, tuple[int, asyncio.Future[None]]] = {}

    def claim(self) -> Claim:
        """A place for one request."""
        return Claim(self)

    def _oldest(self, claim: Claim) -> bool:
        return next(iter(self._reading), None) is claim

    def _admits(self, claim: Claim, more: int) -> bool:
        return self.taken + more <= self.size or self._oldest(claim)

    async def _take(self, claim: Claim, more: int) -> None:
        if self._waiting or not self._admits(claim, more):
            future = asyncio.get_running_loop().create_future()
            self._waiting[claim] = (more, future)
            self._tell()
            try:
                await future
            except asyncio.CancelledError:
                if self._waiting.pop(claim, None) is None and not future.cancelled():
                    self._give(more)
                raise
        else:
            self.taken += more
        claim.size += more

    def _give(self, size: int) -> None:
        self.taken -= size
        self._tell()

    def _tell(self) -> None:
        """Let on whom there is room for, in order of arrival, and the oldest in any case."""
        oldest = next(iter(self._reading), None)
        if oldest is not None and oldest in self._waiting:
            self._let(oldest)
        while self._waiting:
            claim = next(iter(self._waiting))
            if not self._admits(claim, self._waiting[claim][0]):
                break
            self._let(claim)

    def _let(self, claim: Claim) -> None:
        more, future = self._waiting.pop(claim)
        self.taken += more
        if future.done():
            self.taken -= more
        else:
            future.set_result(None)


class Claim:
    """What one request takes up."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0

    async def body(self, receive: Receive, declared: str | None = None) -> bytes:
        """The whole body.

        Args:
            receive: ASGI's.
            declared: The header that says how long it is.

        Raises:
            TooLongError, SlowError, GoneError: there is none; nothing is taken up then.
        """
        room = self._room
        if (
            declared is not None
            and declared.isascii()
            and declared.isdigit()
            and int(declared[:20]) > room.most
        ):
            raise TooLongError
        room._reading[self] = None
        try:
            return await self._read(receive)
        except BaseException:
            self.keep(0)
            raise
        finally:
            del room._reading[self]
            room._tell()

    def keep(self, size: int) -> None:
        """From now on so many bytes are taken up."""
        given, self.size = self.size - size, size
        self._room._give(given)

    async def _read(self, receive: Receive) -> bytes:
        room, parts, length, more = self._room, list[bytes](), 0, True
        while more:
            message = await _within(receive, room.patience)
            if message["type"] == "http.disconnect":
                raise GoneError
            part, more = message.get("body", b""), message.get("more_body", False)
            length += len(part)
            if length > room.most:
                raise TooLongError
            if part:
                await room._take(self, len(part))
                parts.append(part)
        return b"".join(parts)


async def _within(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    """The next message. ``asyncio.wait_for`` would take a task and two turns of the loop for each."""
    task, slow = asyncio.current_task(), False
    assert task is not None

    def give_up() -> None:
        nonlocal slow
        slow = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        return await receive()
    except asyncio.CancelledError:
        if not slow:
            raise
        if sys.version_info >= (3, 11):
            task.uncancel()
        raise SlowError from None
    finally:
        timer.cancel()
