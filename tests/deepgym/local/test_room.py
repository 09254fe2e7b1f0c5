"""Places for so many sessions: first come, first served, and none is ever lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import pytest

from deepgym.providers.local.room import Room


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.001)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "trio":
        pytest.importorskip("trio")
    found: str = request.param
    return found


def test_there_are_as_many_places_as_were_asked_for(backend: str) -> None:
    async def main() -> None:
        room = Room(3)
        for _ in range(3):
            await room.enter()
        with anyio.move_on_after(0.05) as scope:
            await room.enter()
        assert scope.cancelled_caught
        assert room.inside == 3
        room.leave()
        await room.enter()
        assert room.inside == 3

    anyio.run(main, backend=backend)


def test_who_waits_longest_is_next(backend: str) -> None:
    async def main() -> None:
        room, order = Room(1), []
        await room.enter()

        async def wait(number: int) -> None:
            await room.enter()
            order.append(number)
            await anyio.sleep(0.001)
            room.leave()

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(wait, number)
                await until(lambda number=number: len(room._waiting) == number + 1)  # type: ignore[misc]
            room.leave()
        assert order == list(range(10))
        assert room.inside == 0

    anyio.run(main, backend=backend)


def test_a_newcomer_doesnt_overtake(backend: str) -> None:
    async def main() -> None:
        room, order = Room(1), []
        await room.enter()

        async def wait(name: str) -> None:
            await room.enter()
            order.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(wait, "first")
            await until(lambda: len(room._waiting) == 1)
            room.leave()
            group.start_soon(wait, "second")
            await until(lambda: order == ["first"])
            room.leave()
        assert order == ["first", "second"]

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["the first", "one between", "the last"])
def test_who_gives_up_waiting_holds_nobody_up(backend: str, which: int) -> None:
    async def main() -> None:
        room, order = Room(1), []
        await room.enter()
        scopes = [anyio.CancelScope() for _ in range(3)]

        async def wait(number: int) -> None:
            with scopes[number]:
                await room.enter()
                order.append(number)
                room.leave()

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(wait, number)
                await until(lambda number=number: len(room._waiting) == number + 1)  # type: ignore[misc]
            scopes[which].cancel()
            await until(lambda: len(room._waiting) == 2)
            room.leave()
        assert order == [number for number in range(3) if number != which]
        assert (room.inside, room._waiting) == (0, [])

    anyio.run(main, backend=backend)


def test_a_cancellation_in_the_moment_of_entering_loses_no_place(backend: str) -> None:
    """Whenever the waiting is given up, either it was entered or the place is still there."""

    async def main() -> None:
        for turn in range(60):
            room, entered = Room(1), False
            await room.enter()

            async def wait(room: Room = room) -> None:
                nonlocal entered
                await room.enter()
                entered = True

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await until(lambda room=room: len(room._waiting) == 1)  # type: ignore[misc]
                room.leave()
                await anyio.sleep(0.0002 * turn)
                group.cancel_scope.cancel()
            assert room.inside == entered
            assert room._waiting == []

    anyio.run(main, backend=backend)


def test_threads_with_event_loops_of_their_own_share_the_places() -> None:
    room, lock = Room(2), threading.Lock()
    inside, most, entered = 0, 0, 0

    async def visit() -> None:
        nonlocal inside, most, entered
        for _ in range(5):
            await room.enter()
            with lock:
                inside, entered = inside + 1, entered + 1
                most = max(most, inside)
            await anyio.sleep(0.001)
            with lock:
                inside -= 1
            room.leave()

    threads = [threading.Thread(target=anyio.run, args=(visit,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, entered, room.inside) == (2, 30, 0)


def test_a_place_may_be_given_back_by_what_is_collected_while_another_is_taken() -> None:
    """The collector may run a finalizer in any thread, in the middle of anything."""
    room = Room(1)
    room.inside = 1

    def collected() -> None:
        with room._lock:
            room.leave()

    thread = threading.Thread(target=collected, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert room.inside == 0
