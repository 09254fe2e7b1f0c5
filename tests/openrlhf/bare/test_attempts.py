"""Which request is another attempt, and which is another sample that says the same."""

from __future__ import annotations

import asyncio
from typing import Any

from deepgym_openrlhf.attempts import BUDGET, Attempts, Work


class Bench:
    """Work that ends when it is told to; how often it was begun."""

    def __init__(self, patience: float = 180.0) -> None:
        self.attempts: Attempts[str] = Attempts(patience)
        self.begun = 0
        self.gate = asyncio.Event()

    def attach(self, key: bytes = b"k") -> tuple[Work[str], bool]:
        return self.attempts.attach(key, self._begin)

    async def _begin(self, stop: asyncio.Future[None]) -> str:
        self.begun += 1
        number = self.begun
        waits: set[Any] = {asyncio.ensure_future(self.gate.wait()), stop}
        _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        return f"given up {number}" if stop.done() and not stop.cancelled() else f"done {number}"


def test_the_budget_is_what_five_attempts_leave() -> None:
    assert BUDGET == 5 * 180 + 4 - 30


def test_an_attempt_after_its_connection_has_closed_gets_the_work_that_goes_on() -> None:
    async def main() -> None:
        bench = Bench()
        work, again = bench.attach()
        assert not again
        bench.attempts.gone(work)
        assert (bench.attempts.going, bench.attempts.left) == (0, 1)
        second, again = bench.attach()
        assert again
        assert second is work
        assert (bench.attempts.going, bench.attempts.left) == (1, 0)
        bench.gate.set()
        assert await second.task == "done 1"
        bench.attempts.answered(second)
        assert bench.begun == 1
        assert bench.attempts.going == 0

    asyncio.run(main())


def test_open_requests_with_the_same_bytes_are_siblings() -> None:
    async def main() -> None:
        bench = Bench()
        (one, first), (two, second) = bench.attach(), bench.attach()
        assert not first
        assert not second
        assert one is not two
        bench.attempts.gone(one)
        bench.attempts.gone(two)
        assert [bench.attach()[0] for _ in range(2)] == [one, two]
        third, again = bench.attach()
        assert not again
        bench.gate.set()
        assert await asyncio.gather(one.task, two.task, third.task) == ["done 1", "done 2", "done 3"]

    asyncio.run(main())


def test_what_was_answered_isnt_an_answer_to_equal_bytes_that_come_later() -> None:
    async def main() -> None:
        bench = Bench()
        bench.gate.set()
        for number in (1, 2, 3):
            work, again = bench.attach()
            assert not again
            assert await work.task == f"done {number}"
            bench.attempts.answered(work)

    asyncio.run(main())


def test_work_that_ended_while_its_client_was_away_is_kept_for_it() -> None:
    async def main() -> None:
        bench = Bench()
        work, _ = bench.attach()
        bench.attempts.gone(work)
        bench.gate.set()
        await bench.attempts.settle(60)
        found, again = bench.attach()
        assert again
        assert found.task.result() == "done 1"

    asyncio.run(main())


def test_work_for_which_nobody_comes_again_is_given_up_and_forgotten() -> None:
    async def main() -> None:
        bench = Bench(patience=-1.0)
        work, _ = bench.attach()
        bench.attempts.gone(work)
        assert bench.attempts.left == 0
        assert await work.task == "given up 1"
        other, again = bench.attach()
        assert not again
        assert other is not work
        other.give_up()
        other.give_up()
        assert await other.task == "given up 2"

    asyncio.run(main())


def test_other_bytes_are_other_work() -> None:
    async def main() -> None:
        bench = Bench()
        work, _ = bench.attach(b"a")
        bench.attempts.gone(work)
        other, again = bench.attach(b"b")
        assert not again
        assert other is not work
        bench.gate.set()
        await bench.attempts.settle(60)
        assert bench.begun == 2

    asyncio.run(main())


def test_settling_waits_no_longer_than_it_is_told() -> None:
    async def main() -> None:
        bench = Bench()
        work, _ = bench.attach()
        await bench.attempts.settle(0.01)
        assert not work.task.done()
        bench.gate.set()
        await bench.attempts.settle(60)
        assert work.task.done()

    asyncio.run(main())
