"""Bodies take up what they have sent, and no slow one stands in another's way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from deepgym_openrlhf.room import Claim, GoneError, Room, SlowError, TooLongError


class Sender:
    """A client that sends a body piece by piece."""

    def __init__(self, parts: Iterable[bytes] = (), complete: bool = True) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.taken = 0
        self.send(*parts, complete=complete)

    def send(self, *parts: bytes, complete: bool = False) -> None:
        for number, part in enumerate(parts, 1):
            more = not (complete and number == len(parts))
            self.messages.put_nowait({"type": "http.request", "body": part, "more_body": more})

    def leave(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> dict[str, Any]:
        message = await self.messages.get()
        self.taken += 1
        return message


def reading(room: Room, sender: Sender, declared: str | None = None) -> tuple[Claim, asyncio.Task[bytes]]:
    claim = room.claim()
    return claim, asyncio.ensure_future(claim.body(sender.receive, declared))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_body_comes_whole_and_takes_up_its_length_until_it_is_let_go() -> None:
    async def main() -> None:
        room = Room(100, 50)
        claim, task = reading(room, Sender([b"ab", b"", b"cde"]))
        assert await task == b"abcde"
        assert room.taken == 5
        claim.keep(2)
        assert room.taken == 2
        claim.keep(0)
        claim.keep(0)
        assert room.taken == 0
        _, nothing = reading(room, Sender([b""]))
        assert await nothing == b""

    asyncio.run(main())


@pytest.mark.parametrize("declared", ["51", "999999999999999999999999999999"])
def test_a_body_that_says_it_is_too_long_is_refused_unread(declared: str) -> None:
    async def main() -> None:
        room, sender = Room(100, 50), Sender([b"a"])
        _, task = reading(room, sender, declared)
        with pytest.raises(TooLongError):
            await task
        assert sender.taken == 0
        assert room.taken == 0

    asyncio.run(main())


@pytest.mark.parametrize("declared", [None, "3", "nonsense", "-1", "\u0663"])
def test_a_body_that_is_too_long_whatever_it_says_is_refused(declared: str | None) -> None:
    async def main() -> None:
        room = Room(100, 50)
        _, task = reading(room, Sender([b"x" * 30, b"y" * 30]), declared)
        with pytest.raises(TooLongError):
            await task
        assert room.taken == 0

    asyncio.run(main())


def test_what_was_announced_but_not_sent_takes_up_nothing() -> None:
    async def main() -> None:
        room = Room(100, 50)
        halves = [reading(room, Sender([b"x"], complete=False), "50") for _ in range(40)]
        await settled()
        assert room.taken == 40
        _, quick = reading(room, Sender([b"q" * 50]), "50")
        assert await quick == b"q" * 50
        for _, task in halves:
            task.cancel()
        await asyncio.gather(*(task for _, task in halves), return_exceptions=True)
        assert room.taken == 50

    asyncio.run(main())


def test_when_the_room_is_full_others_wait_in_order_of_arrival() -> None:
    async def main() -> None:
        room = Room(100, 60)
        first, task = reading(room, Sender([b"1" * 60]))
        assert len(await task) == 60
        stalled = reading(room, Sender([b"0"], complete=False))
        await settled()
        waiting = [reading(room, Sender([str(n).encode() * 50])) for n in range(2, 5)]
        await settled()
        assert not any(task.done() for _, task in waiting)
        first.keep(0)
        assert await waiting[0][1] == b"2" * 50
        await settled()
        assert not waiting[1][1].done()
        waiting[0][0].keep(0)
        assert await waiting[1][1] == b"3" * 50
        waiting[1][0].keep(0)
        assert await waiting[2][1] == b"4" * 50
        stalled[1].cancel()
        await asyncio.gather(stalled[1], return_exceptions=True)
        waiting[2][0].keep(0)
        assert room.taken == 0

    asyncio.run(main())


def test_the_oldest_body_gets_on_so_that_halves_dont_block_one_another() -> None:
    async def main() -> None:
        room = Room(100, 60)
        senders = [Sender([b"x" * 40], complete=False) for _ in range(3)]
        halves = [reading(room, sender) for sender in senders[:2]]
        await settled()
        assert room.taken == 80
        halves.append(reading(room, senders[2]))
        for sender in reversed(senders):
            sender.send(b"y" * 20, complete=True)
        bodies = []
        for claim, task in halves:
            bodies.append(await task)
            assert room.taken <= 100 + 60
            claim.keep(0)
        assert bodies == [b"x" * 40 + b"y" * 20] * 3
        assert room.taken == 0

    asyncio.run(main())


def test_a_body_whose_rest_doesnt_come_is_given_up() -> None:
    async def main() -> None:
        room = Room(100, 50, patience=0.01)
        _, task = reading(room, Sender([b"half"], complete=False))
        with pytest.raises(SlowError):
            await task
        assert room.taken == 0

    asyncio.run(main())


def test_a_client_that_leaves_in_the_middle_takes_up_nothing() -> None:
    async def main() -> None:
        room, sender = Room(100, 50), Sender([b"half"], complete=False)
        sender.leave()
        _, task = reading(room, sender)
        with pytest.raises(GoneError):
            await task
        assert room.taken == 0

    asyncio.run(main())


@pytest.mark.parametrize("let_on_first", [False, True])
def test_who_is_cancelled_while_it_waits_takes_up_nothing(let_on_first: bool) -> None:
    async def main() -> None:
        room = Room(100, 60)
        full, task = reading(room, Sender([b"f" * 60]))
        await task
        stalled = reading(room, Sender([b"0"], complete=False))
        await settled()
        _, waiting = reading(room, Sender([b"w" * 50]))
        _, behind = reading(room, Sender([b"b" * 50]))
        await settled()
        if let_on_first:
            full.keep(0)
            waiting.cancel()
        else:
            waiting.cancel()
            full.keep(0)
        assert await behind == b"b" * 50
        stalled[1].cancel()
        await asyncio.gather(waiting, stalled[1], return_exceptions=True)
        assert waiting.cancelled()
        assert room.taken == 50

    asyncio.run(main())


@pytest.mark.parametrize("most", [0, -1, 101])
def test_a_body_fits_into_the_room(most: int) -> None:
    with pytest.raises(ValueError, match="max_body"):
        Room(100, most)
