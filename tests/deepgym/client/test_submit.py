"""``DeepGym.submit``: work for the client's event loop, from whoever mustn't wait for it."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.environments import Environment
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, GOOD, SCRIPT, WRONG


async def forever(_: AsyncDeepGym) -> None:
    await asyncio.get_running_loop().create_future()


class Blocked:
    """Work that blocks the client's event loop until it is let go."""

    def __init__(self) -> None:
        self.there, self.gate = threading.Event(), threading.Event()

    async def __call__(self, _: AsyncDeepGym) -> str:
        self.there.set()
        self.gate.wait()
        return "let go"


def fake() -> DeepGym:
    return DeepGym(provider=FakeProvider(SCRIPT))


def test_work_gets_the_async_client_and_runs_in_its_loop() -> None:
    with fake() as dg:

        async def work(client: AsyncDeepGym) -> tuple[bool, str, list[float | None]]:
            batch = await client.run_batch(ADD, [GOOD, WRONG])
            return (
                client is dg.asynchronous,
                threading.current_thread().name,
                [r.reward for r in batch.results],
            )

        assert dg.submit(work).result() == (True, "deepgym", [1.0, 0.0])


def test_what_it_raises_is_the_future_s() -> None:
    async def fail(_: AsyncDeepGym) -> None:
        raise KeyError("x")

    def at_once(_: AsyncDeepGym) -> Any:
        raise ValueError("before it began")

    with fake() as dg:
        with pytest.raises(KeyError, match="x"):
            dg.submit(fail).result()
        with pytest.raises(ValueError, match="before it began"):
            dg.submit(at_once).result()
        assert dg.run(ADD, GOOD).passed


def test_another_event_loop_goes_on_while_it_awaits_it() -> None:
    async def main(dg: DeepGym) -> bool:
        gate = threading.Event()

        async def wait(client: AsyncDeepGym) -> bool:
            while not gate.is_set():
                await asyncio.sleep(0.001)
            return (await client.run(ADD, GOOD)).passed

        going = asyncio.wrap_future(dg.submit(wait))
        for _ in range(500):
            await asyncio.sleep(0)
        assert not going.done()
        gate.set()
        return await going

    with fake() as dg:
        assert asyncio.run(main(dg))


def test_a_loop_that_is_blocked_blocks_nobody_who_submits_or_cancels() -> None:
    blocked = Blocked()
    with fake() as dg:
        first = dg.submit(blocked)
        blocked.there.wait()
        others = [dg.submit(forever) for _ in range(20)]
        assert all(other.cancel() for other in others)
        last = dg.submit(blocked)
        assert not first.done()
        blocked.gate.set()
        assert [first.result(), last.result()] == ["let go"] * 2
        assert dg.run(ADD, GOOD).passed


def test_cancelling_the_future_stops_the_work() -> None:
    there, stopped = threading.Event(), threading.Event()

    async def work(_: AsyncDeepGym) -> None:
        there.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    with fake() as dg:
        future = dg.submit(work)
        there.wait()
        assert future.cancel()
        assert stopped.wait(30)
        with pytest.raises(CancelledError):
            future.result()
        assert dg.run(ADD, GOOD).passed


def test_closing_the_client_ends_the_work_waits_for_its_clean_up_and_opens_anew() -> None:
    cleaned: list[str] = []
    there = threading.Event()

    async def work(_: AsyncDeepGym) -> None:
        there.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("clean")

    dg = fake()
    future = dg.submit(work)
    there.wait()
    dg.close()
    assert cleaned == ["clean"]
    assert future.cancelled()
    assert dg.submit(lambda client: client.run(ADD, GOOD)).result().passed
    dg.close()


def test_no_future_is_forgotten_whenever_the_client_closes() -> None:
    """Threads submit while another closes: each future comes to an end, or ``submit`` raises."""
    dg = fake()
    futures: list[Future[Any]] = []
    refused: list[str] = []

    def submit() -> None:
        for _ in range(150):
            try:
                futures.append(dg.submit(forever))
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=submit) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        dg.close()
    dg.close()
    assert len(futures) + len(refused) == 450
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(timeout=60)
    assert set(refused) <= {"the client's event loop has ended"}


def test_many_threads_may_submit() -> None:
    found: dict[int, list[float | None]] = {}

    def work(dg: DeepGym, number: int) -> None:
        going = [dg.submit(lambda client: client.run_batch(ADD, [GOOD, WRONG])) for _ in range(number)]
        found[number] = [r.reward for future in going for r in future.result().results]

    with fake() as dg:
        threads = [threading.Thread(target=work, args=(dg, number)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: [1.0, 0.0] * number for number in range(1, 9)}


def test_a_copy_has_a_loop_of_its_own() -> None:
    with fake() as dg:
        dg.submit(lambda client: client.run(ADD, GOOD)).result()
        copy = pickle.loads(pickle.dumps(dg))
        try:
            assert copy.submit(lambda client: client.run(ADD, WRONG)).result().reward == 0.0
            assert copy.asynchronous is not dg.asynchronous
        finally:
            copy.close()


@pytest.mark.local_sandbox
def test_real_runs_of_another_loop_s_tasks(dg: DeepGym, env: Environment) -> None:
    async def main() -> list[bool]:
        answers = ["def f(x): return x + 1", "def f(x): return x"] * 3
        going = [dg.submit(lambda client, each=each: client.run(env, each)) for each in answers]  # type: ignore[misc]
        found = await asyncio.gather(*map(asyncio.wrap_future, going))
        return [result.passed for result in found]

    assert asyncio.run(main()) == [True, False] * 3


@pytest.mark.local_sandbox
def test_a_forked_child_submits_to_a_loop_of_its_own(script: Callable[..., Any]) -> None:
    found = script("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        dg = DeepGym(slots=1)
        run = lambda client: client.run(environment(), RIGHT)
        assert dg.submit(run).result().passed
        child = os.fork()
        if child == 0:
            os._exit(0 if dg.submit(run).result().passed else 1)
        status = os.waitpid(child, 0)[1]
        say(json.dumps([status, dg.submit(run).result().passed]))
        dg.close()
    """)
    assert found.result() == [0, True]
