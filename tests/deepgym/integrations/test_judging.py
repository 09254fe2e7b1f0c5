"""A judge that raises, hangs or is closed under its caller costs its runs their verdict, and nothing more."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
import pytest

from deepgym import DeepGym, RewardFunction
from deepgym.exceptions import UnknownNameError
from deepgym.integrations import judging
from deepgym.integrations.judging import Judging, least_deadline, share_of_ranks
from deepgym.models import BatchResult, RunResult
from deepgym.providers.base import Provider, Sandbox, Spec
from deepgym.providers.local import LocalProvider
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG, ContractLaws

pytestmark = pytest.mark.usefixtures("short_waits")
#: What a deadline must hold for ``ADD``: a run and its repetition.
DEADLINE = least_deadline([ADD])


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_CLOSING", 1.0)


class Hanging(FakeProvider):
    """Hangs where a sandbox is opened for the ``nth`` time, for as long as the test wants it to."""

    def __init__(self, nth: int, *, loop_too: bool = False) -> None:
        super().__init__(SCRIPT)
        self.asked, self.nth, self.loop_too = 0, nth, loop_too
        self.released = threading.Event()

    async def open(self, spec: Spec) -> Sandbox:
        self.asked += 1
        if self.asked == self.nth:
            if self.loop_too:
                self.released.wait()
            else:
                await anyio.sleep_forever()
        return await super().open(spec)


@pytest.fixture
def hanging() -> Iterator[list[Hanging]]:
    made: list[Hanging] = []
    yield made
    for provider in made:
        provider.released.set()


def rewards_of(batch: BatchResult) -> list[float | None]:
    return [result.reward for result in batch.results]


def at_once(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up seconds after the call, without waiting for the deadline that ``ADD`` needs."""
    monkeypatch.setattr(judging, "grace", 3.0 - judging.deadline)


class TestJudgingKeepsTheLaws(ContractLaws):
    def batch(self, env: Any, provider: Provider, answers: Sequence[str]) -> BatchResult:
        with DeepGym(provider=provider) as dg:
            return Judging(RewardFunction(dg=dg, extract=False), 600.0).results(answers, env)


def test_what_hangs_gets_no_verdict_and_what_was_over_keeps_its_own(
    hanging: list[Hanging], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Hanging(nth=3)
    hanging.append(provider)
    with DeepGym(provider=provider, max_parallel=1) as dg:
        judging = Judging(RewardFunction(ADD, dg=dg, extract=False), DEADLINE)
        at_once(judging, monkeypatch)
        batch = judging.results([GOOD, HALF, GOOD, WRONG])
        assert rewards_of(batch) == [1.0, 0.5, None, None]
        assert [r.error_type for r in batch.results[2:]] == ["provider_error", "provider_error"]
        assert "hangs" in str(batch.results[2].error)
        # The client was closed, and works again.
        assert rewards_of(judging.results([GOOD, WRONG])) == [1.0, 0.0]


def test_a_client_whose_loop_is_blocked_is_asked_nothing_until_it_has_closed(
    hanging: list[Hanging], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Hanging(nth=2, loop_too=True)
    hanging.append(provider)
    dg = DeepGym(provider=provider, max_parallel=1)
    judging = Judging(RewardFunction(ADD, dg=dg, extract=False), DEADLINE)
    at_once(judging, monkeypatch)
    assert rewards_of(judging.results([GOOD, HALF])) == [1.0, None]
    later = judging.results([GOOD, WRONG])
    assert rewards_of(later) == [None, None]
    assert "hangs since an earlier call" in str(later.results[0].error)
    (closer,) = judging._closers.values()
    provider.released.set()
    closer.join()
    assert rewards_of(judging.results([GOOD, WRONG])) == [1.0, 0.0]
    dg.close()


def test_a_client_of_its_own_that_cannot_be_closed_is_given_up_for_a_new_one(
    hanging: list[Hanging], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Hanging(nth=1, loop_too=True)
    hanging.append(blocked)
    providers = [blocked, FakeProvider(SCRIPT)]
    monkeypatch.setattr("deepgym.client.DeepGym", lambda: DeepGym(provider=providers.pop(0)))
    judging = Judging(RewardFunction(ADD, extract=False), DEADLINE)
    at_once(judging, monkeypatch)
    assert rewards_of(judging.results([GOOD])) == [None]
    assert rewards_of(judging.results([GOOD])) == [1.0]
    judging.rewards.close()


class Raising(RewardFunction):
    """Fails as a client may: its thread can't start, its loop is closed, memory is gone."""

    error: BaseException = RuntimeError("can't start new thread")

    def judged(self, items: Any, deadline: float, observers: Any = ()) -> BatchResult:
        observers[0].on_result(0, RunResult(score=1.0, passed=True))
        raise self.error


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (RuntimeError("the loop is closed"), "sandbox_error"),
        (MemoryError(), "sandbox_error"),
        (OSError(24, "too many open files"), "sandbox_error"),
        (ConnectionResetError("by peer"), "provider_error"),
        (SystemExit(3), "sandbox_error"),
        (asyncio.CancelledError(), "sandbox_error"),
    ],
)
def test_what_a_client_raises_is_no_verdict_for_the_runs_that_were_not_over(
    error: BaseException, error_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    rewards = Raising(ADD, extract=False)
    rewards.error = error
    batch = Judging(rewards, DEADLINE).results([GOOD, HALF, WRONG])
    assert rewards_of(batch) == [1.0, None, None]
    assert {r.error_type for r in batch.results[1:]} == {error_type}
    assert "no verdict for 2 of 3 completions" in caplog.text


def test_no_thread_to_be_had_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    judging = Judging(RewardFunction(ADD, extract=False), DEADLINE)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    batch = judging.results([GOOD])
    assert rewards_of(batch) == [None]
    assert "can't start new thread" in str(batch.results[0].error)


@pytest.mark.parametrize(
    ("completions", "env", "error"),
    [
        ([GOOD], "no_such_thing", UnknownNameError),
        ([3], ADD, TypeError),
        ("text", ADD, TypeError),
        ([GOOD, GOOD], [ADD], ValueError),
    ],
)
def test_a_wrong_argument_raises_at_once(completions: Any, env: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Judging(RewardFunction(), 600.0).results(completions, env)


def test_a_deadline_that_cannot_hold_a_run_and_its_repetition_raises() -> None:
    with pytest.raises(ValueError, match="raise deadline or lower"):
        Judging(RewardFunction(ADD), DEADLINE - 1).results([GOOD])


def test_it_pickles_and_works_on(hanging: list[Hanging]) -> None:
    judging = pickle.loads(pickle.dumps(Judging(RewardFunction(ADD, extract=False), DEADLINE)))
    assert judging.deadline == DEADLINE
    judging.rewards.dg = DeepGym(provider=FakeProvider(SCRIPT))
    assert rewards_of(judging.results(list(ANSWERS))) == list(ANSWERS.values())
    judging.rewards.dg.close()


@pytest.mark.parametrize(
    ("ranks", "slots", "asked", "share"),
    [
        (None, 8, None, 8),
        ("1", 8, None, 8),
        ("2", 8, None, 4),
        ("3", 8, None, 3),
        ("16", 8, None, 1),
        ("2", 8, 4, 2),
        ("x", 8, None, 8),
    ],
)
def test_the_ranks_of_a_host_share_its_slots(
    monkeypatch: pytest.MonkeyPatch, ranks: str | None, slots: int, asked: int | None, share: int
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "64")
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert share_of_ranks(LocalProvider(slots=slots), asked) == share


@pytest.mark.parametrize(("asked", "share"), [(None, None), (64, 16), (2, 1)])
def test_all_ranks_share_the_quota_of_a_remote_provider(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, share: int | None
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert share_of_ranks(FakeProvider(SCRIPT), asked) == share


class Slow(FakeProvider):
    """Takes until the deadline is over to open a sandbox."""

    async def open(self, spec: Spec) -> Sandbox:
        sandbox = await super().open(spec)
        self.clock[0] += 1000.0
        return sandbox

    clock: list[float]


def test_a_run_that_waited_too_long_for_its_place_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Slow(SCRIPT)
    provider.clock = [0.0]
    real = time.monotonic
    monkeypatch.setattr("deepgym.running.batch.time.monotonic", lambda: real() + provider.clock[0])
    with DeepGym(provider=provider) as dg:
        (result,) = dg.run_batch(ADD, [GOOD], deadline=DEADLINE).results
    assert result.error_type == "deadline"
    assert not result.has_verdict
