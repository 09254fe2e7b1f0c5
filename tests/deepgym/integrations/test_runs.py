"""One run at a time for each place there is: a result for each, whatever the client does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.integrations import runs as runs_module
from deepgym.integrations.judging import least_deadline
from deepgym.integrations.runs import Runs, admits, plain
from deepgym.models import BatchResult, RunResult
from deepgym.providers.base import Job, Sandbox, Spec
from deepgym.running.batch import Item
from deepgym.testing.fakes import Behaviour, FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG

LEAST = least_deadline([ADD])
LATER = 3600.0


class Gate(FakeProvider):
    """Sandboxes open once the gate is; ``asked`` of them were wanted."""

    def __init__(self, **more: Any) -> None:
        super().__init__(SCRIPT)
        self.__dict__.update(more)
        self.gate, self.there = asyncio.Event(), asyncio.Event()
        self.asked = self.given_up = 0

    async def open(self, spec: Spec) -> Sandbox:
        self.asked += 1
        self.there.set()
        try:
            await self.gate.wait()
        except BaseException:
            self.given_up += 1
            raise
        return await super().open(spec)


async def graded(
    runs: Runs, answer: str = GOOD, *, start_by: float = LATER, until: float = 2 * LATER, stop: Any = None
) -> RunResult:
    now = time.monotonic()
    never = asyncio.get_running_loop().create_future() if stop is None else stop
    return await runs.graded(Item(ADD, answer), now + start_by, now + until, never)


def in_a_loop(main: Callable[[], Any]) -> Any:
    return asyncio.run(main())


# --- as it should be ---------------------------------------------------------------------------------------------


def test_each_answer_has_its_result() -> None:
    async def main() -> list[float | None]:
        async with AsyncDeepGym(provider=FakeProvider(SCRIPT)) as dg:
            runs = Runs(dg, 4)
            found = await asyncio.gather(*(graded(runs, answer) for answer in ANSWERS))
            await runs.close()
            return [result.reward for result in found]

    assert in_a_loop(main) == list(ANSWERS.values())


@pytest.mark.parametrize(
    ("asked", "more", "client", "room"),
    [
        (3, {}, {}, 3),
        (None, {}, {"max_parallel": 2}, 2),
        (None, {"slots": 4}, {}, 4),
        (6, {"slots": 4}, {}, 4),
        (2, {"slots": 4}, {}, 2),
        (None, {"slots": 4}, {"max_parallel": 2}, 2),
    ],
)
def test_so_many_runs_go_on_at_once_as_there_is_room_for(
    asked: int | None, more: dict[str, Any], client: dict[str, Any], room: int
) -> None:
    async def main() -> int:
        provider = Gate(**more)
        async with AsyncDeepGym(provider=provider, **client) as dg:
            runs = Runs(dg, asked)
            going = [asyncio.ensure_future(graded(runs)) for _ in range(12)]
            while provider.asked < room:
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            waiting = provider.asked
            provider.gate.set()
            assert [result.reward for result in await asyncio.gather(*going)] == [1.0] * 12
            return waiting

    assert in_a_loop(main) == room


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_dated_as_the_contract_says(fault: Fault) -> None:
    async def main() -> RunResult:
        async with AsyncDeepGym(provider=FaultyProvider(FakeProvider(SCRIPT), fault)) as dg:
            return await graded(Runs(dg, 1))

    assert in_a_loop(main).error_type == fault.error_type


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_run_that_cannot_end_in_time_is_not_started() -> None:
    async def main() -> tuple[RunResult, int]:
        provider = FakeProvider(SCRIPT)
        async with AsyncDeepGym(provider=provider) as dg:
            return await graded(Runs(dg, 1), start_by=LEAST - 0.01), provider.opened

    result, opened = in_a_loop(main)
    assert (result.error_type, result.has_verdict, opened) == ("deadline", False, 0)
    assert admits(Item(ADD, GOOD), time.monotonic() + LEAST + 60)
    assert not admits(Item(ADD, GOOD), time.monotonic() + LEAST - 0.01)


class Long(Gate):
    """Time passes while an answer runs."""

    ahead = 0.0

    def behaviour(self, job: Job) -> Behaviour:
        self.ahead += 40.0
        return super().behaviour(job)


def test_a_run_that_waited_too_long_for_a_place_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[list[RunResult], int]:
        provider = Long()
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + provider.ahead)
        async with AsyncDeepGym(provider=provider) as dg:
            runs = Runs(dg, 1)
            going = [asyncio.ensure_future(graded(runs, start_by=LEAST + 30)) for _ in range(3)]
            await provider.there.wait()
            provider.gate.set()
            return list(await asyncio.gather(*going)), provider.opened

    results, opened = in_a_loop(main)
    assert [result.error_type for result in results] == [None, "deadline", "deadline"]
    assert (results[0].reward, opened) == (1.0, 1)


@pytest.mark.parametrize("stopped", [True, False], ids=["nobody waits any longer", "its time is over"])
def test_a_run_that_is_given_up_is_no_verdict_and_leaves_its_place(stopped: bool) -> None:
    async def main() -> tuple[RunResult, RunResult, int]:
        provider = Gate()
        async with AsyncDeepGym(provider=provider) as dg:
            runs = Runs(dg, 1)
            stop = asyncio.get_running_loop().create_future()
            going = asyncio.ensure_future(graded(runs, until=LATER if stopped else 0.05, stop=stop))
            await provider.there.wait()
            if stopped:
                stop.set_result(None)
            lost = await going
            provider.gate.set()
            again = await graded(runs)
            await runs.close()
            return lost, again, provider.given_up

    lost, again, given_up = in_a_loop(main)
    assert (lost.has_verdict, lost.error_type) == (False, "provider_error")
    assert ("this run was given up" if stopped else "the judge hangs") in str(lost.error)
    assert (again.reward, given_up) == (1.0, 1)


def test_what_was_stopped_before_it_began_is_not_started() -> None:
    async def main() -> tuple[RunResult, int]:
        provider = FakeProvider(SCRIPT)
        async with AsyncDeepGym(provider=provider) as dg:
            stop = asyncio.get_running_loop().create_future()
            stop.set_result(None)
            return await graded(Runs(dg, 1), stop=stop), provider.opened

    result, opened = in_a_loop(main)
    assert (result.has_verdict, opened) == (False, 0)


def test_cancelling_the_caller_stops_the_run_and_leaves_its_place() -> None:
    async def main() -> tuple[float | None, int]:
        provider = Gate()
        async with AsyncDeepGym(provider=provider) as dg:
            runs = Runs(dg, 1)
            going = [asyncio.ensure_future(graded(runs)) for _ in range(3)]
            await provider.there.wait()
            for each in going:
                each.cancel()
            for each in going:
                with contextlib.suppress(asyncio.CancelledError):
                    await each
            provider.gate.set()
            reward = (await graded(runs)).reward
            await runs.close()
            assert not runs._going
            return reward, provider.given_up

    assert in_a_loop(main) == (1.0, 1)


# --- what a client may do --------------------------------------------------------------------------------------------


class Client(AsyncDeepGym):
    """Does something else than running a batch."""

    does: Any = None

    async def run_batch(self, *given: Any, **named: Any) -> BatchResult:
        did = self.does()
        found: BatchResult = await did if hasattr(did, "__await__") else did
        return found


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (RuntimeError("the loop is closed"), "sandbox_error"),
        (MemoryError(), "sandbox_error"),
        (OSError(24, "too many open files"), "sandbox_error"),
        (ConnectionResetError("by peer"), "provider_error"),
        (ValueError("\ud800"), "sandbox_error"),
    ],
)
def test_what_a_client_raises_is_no_verdict(
    error: Exception, error_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> RunResult:
        client = Client(provider=FakeProvider(SCRIPT))
        client.does = lambda: _raise(error)
        return await graded(Runs(client, 1))

    result = in_a_loop(main)
    assert (result.has_verdict, result.error_type) == (False, error_type)
    assert "a run has no verdict" in caplog.text
    result.model_dump_json().encode()


def test_a_client_that_cancels_a_run_is_no_verdict() -> None:
    async def main() -> RunResult:
        client = Client(provider=FakeProvider(SCRIPT))
        client.does = lambda: _raise(asyncio.CancelledError())
        return await graded(Runs(client, 1))

    result = in_a_loop(main)
    assert (result.has_verdict, result.error_type) == (False, "cancelled")


def test_an_empty_batch_of_a_broken_client_is_no_verdict() -> None:
    async def main() -> RunResult:
        client = Client(provider=FakeProvider(SCRIPT))
        client.does = lambda: BatchResult(results=())
        return await graded(Runs(client, 1))

    assert not in_a_loop(main).has_verdict


def test_what_cannot_be_a_client_or_room_is_refused() -> None:
    with pytest.raises(TypeError, match="dg must be an AsyncDeepGym, got DeepGym"):
        Runs(DeepGym(), None)  # type: ignore[arg-type]
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least one run must be allowed"):
            Runs(None, wrong)


# --- closing -----------------------------------------------------------------------------------------------------------


def test_a_client_of_its_own_is_opened_when_it_is_needed_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Own(AsyncDeepGym):
        def __init__(self) -> None:
            super().__init__(provider=FakeProvider(SCRIPT))
            self.closed = False
            made.append(self)

        async def close(self) -> None:
            self.closed = True
            await super().close()

    monkeypatch.setattr("deepgym.client.AsyncDeepGym", Own)

    async def main() -> list[float | None]:
        runs = Runs(None, 1)
        await runs.close()
        assert not made
        found = [(await graded(runs, answer)).reward for answer in (GOOD, HALF)]
        await runs.close()
        await runs.close()
        return found

    assert in_a_loop(main) == [1.0, 0.5]
    assert [each.closed for each in made] == [True]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_client_of_its_own_that_cannot_be_closed_is_left(
    hangs: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runs_module, "_CLOSING", 0.05)

    class Own(AsyncDeepGym):
        def __init__(self) -> None:
            super().__init__(provider=FakeProvider(SCRIPT))

        async def close(self) -> None:
            if hangs:
                await anyio.sleep_forever()
            raise RuntimeError("no")

    monkeypatch.setattr("deepgym.client.AsyncDeepGym", Own)

    async def main() -> float | None:
        runs = Runs(None, 1)
        reward = (await graded(runs)).reward
        await runs.close()
        return reward

    assert in_a_loop(main) == 1.0
    assert "the judge couldn't be closed" in caplog.text


def test_a_client_that_was_given_stays_open() -> None:
    async def main() -> float | None:
        async with AsyncDeepGym(provider=FakeProvider(SCRIPT)) as dg:
            runs = Runs(dg, 1)
            await graded(runs)
            await runs.close()
            return (await dg.run(ADD, WRONG)).reward

    assert in_a_loop(main) == 0.0


# --- logs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\ud800", "\\ud800"),
        ("caf\u00e9\n\x1b[31m", "caf\\xe9\n\x1b[31m"),
        ("x" * 5000, "x" * 1000),
        ("", ""),
    ],
)
def test_a_text_for_a_log_can_be_written_anywhere(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert len(plain("\U0001f600" * 1000)) == 1000
