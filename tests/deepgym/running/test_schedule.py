"""The order of many runs on a provider that does as it is told: retries, cancellation, failures of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest

from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits
from deepgym.exceptions import NetworkError, ProviderError, SandboxDiedError, SandboxError
from deepgym.models import RunResult
from deepgym.providers.base import Capabilities, Exit, Job, Spec, ZygoteDiedError
from deepgym.running.batch import Deadline, Item, worst_case
from deepgym.running.observers import Observers
from deepgym.running.schedule import ATTEMPTS, Schedule, Ticket, unstarted

pytestmark = pytest.mark.anyio

RIGHT, WRONG = b'{"id":1,"v":2}\n', b'{"id":1,"v":3}\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def environment(wall: float = 10.0) -> Environment:
    cases = Cases(function="f", cases=(Case(args=(1,), expected=2),))
    return Environment(name="t", task="t", verify=cases, limits=EnvironmentLimits(wall=wall))


class FakeProcess:
    """A process that is marked or isn't, and ends as its script says."""

    def __init__(self, marked: bool, replies: bytes, ended: Exit | BaseException) -> None:
        self.marked_at = time.monotonic() if marked else None
        self.replies, self.stdout, self.stderr = bytearray(replies), bytearray(), bytearray()
        self.truncated = self.overflow = False
        self.running = False
        self._ended = ended

    async def send(self, data: bytes) -> None: ...

    async def finish_requests(self) -> None: ...

    async def line(self, timeout: float) -> bytes | None:
        return None

    async def end(self, wall: float) -> Exit:
        if isinstance(self._ended, BaseException):
            raise self._ended
        return self._ended

    async def settle(self) -> Exit:
        return await self.end(0.0)

    async def kill(self) -> None: ...


Step = Callable[[], FakeProcess]


def ends(replies: bytes = RIGHT, marked: bool = True, **ended: Any) -> Step:
    """A run that ends with these replies."""
    return lambda: FakeProcess(marked, replies, Exit(**(ended or {"code": 0})))


def breaks(error: Exception, marked: bool) -> Step:
    """A run whose sandbox fails while it is waited for."""
    return lambda: FakeProcess(marked, b"", error)


def refuses(error: Exception) -> Step:
    """A sandbox that can't be opened."""

    def step() -> FakeProcess:
        raise error

    return step


class FakeProvider:
    """Runs its steps in turn, the last one for ever."""

    name = "fake"
    capabilities = Capabilities(isolation="none")

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.specs: list[Spec] = []
        self.open_now = 0

    async def open(self, spec: Spec) -> FakeSandbox:
        self.specs.append(spec)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        process = step()
        self.open_now += 1
        return FakeSandbox(self, process)

    async def close(self) -> None: ...


class FakeSandbox:
    id, capabilities = "fake-0", Capabilities(isolation="none")

    def __init__(self, provider: FakeProvider, process: FakeProcess) -> None:
        self.provider, self.process = provider, process

    async def start(self, job: Job) -> FakeProcess:
        return self.process

    def opened_by_verifier(self) -> Literal["no", "watch", "watch_lost"]:
        return "no"

    async def close(self) -> None:
        self.provider.open_now -= 1


async def one(*steps: Step) -> tuple[RunResult, FakeProvider]:
    """The result of one run on these steps."""
    provider = FakeProvider(*steps)
    results: list[RunResult | None] = [None]
    items = [Item(environment(), "def f(x): return x + 1")]
    await Schedule(provider).batch(items, results, 1, Deadline(None, items), Observers(()))
    assert results[0] is not None
    assert provider.open_now == 0
    return results[0], provider


OUTAGES: list[tuple[Exception, str]] = [
    (ProviderError("down", "fake", 503), "provider_error"),
    (NetworkError("unreachable"), "network_error"),
    (SandboxError("no namespaces"), "sandbox_error"),
    (ConnectionResetError("reset"), "provider_error"),
    (OSError(24, "too many open files"), "sandbox_error"),
    (RuntimeError("a bug of ours"), "sandbox_error"),
    (MemoryError(), "sandbox_error"),
]


@pytest.mark.parametrize(("error", "error_type"), OUTAGES, ids=lambda item: repr(item)[:40])
async def test_an_outage_is_tried_again_a_bounded_number_of_times_and_has_no_verdict(
    error: Exception, error_type: str
) -> None:
    result, provider = await one(refuses(error))
    assert (result.has_verdict, result.score, result.reward) == (False, 0.0, None)
    assert result.error_type == error_type
    assert type(error).__name__ in (result.error or "")
    assert len(provider.specs) == ATTEMPTS


@pytest.mark.parametrize(("error", "error_type"), OUTAGES, ids=lambda item: repr(item)[:40])
async def test_an_outage_that_passes_costs_nothing(error: Exception, error_type: str) -> None:
    result, provider = await one(refuses(error), ends())
    assert result.passed
    assert len(provider.specs) == 2


@pytest.mark.parametrize(("error", "error_type"), OUTAGES, ids=lambda item: repr(item)[:40])
async def test_an_outage_after_play_has_no_verdict_and_is_not_tried_again(
    error: Exception, error_type: str
) -> None:
    result, provider = await one(breaks(error, marked=True), ends())
    assert (result.has_verdict, result.error_type) == (False, error_type)
    assert len(provider.specs) == 1


async def test_a_sandbox_that_breaks_before_play_is_tried_again() -> None:
    result, provider = await one(breaks(SandboxDiedError("gone"), marked=False), ends())
    assert result.passed
    assert len(provider.specs) == 2


async def test_a_set_up_that_takes_too_long_is_tried_again() -> None:
    result, provider = await one(ends(b"", marked=False, killed=True, clock="setup"), ends())
    assert result.passed
    assert len(provider.specs) == 2


async def test_a_set_up_that_always_takes_too_long_is_a_timeout_without_a_verdict() -> None:
    result, provider = await one(ends(b"", marked=False, killed=True, clock="setup"))
    assert (result.error_type, result.has_verdict) == ("timeout", False)
    assert len(provider.specs) == ATTEMPTS


@pytest.mark.parametrize(
    ("step", "error_type"),
    [
        (ends(WRONG), None),
        (ends(b"", code=1), "solution_error"),
        (ends(b"", signal=9), "solution_error"),
        (ends(b"", killed=True, clock="wall"), "solution_timeout"),
        (ends(b"", killed=True, clock="cpu"), "solution_timeout"),
        (ends(b"", killed=True, clock="output"), "solution_error"),
        (ends(b"", signal=9, oom=True), "solution_error"),
        (ends(b"", code=2), "solution_error"),
        (ends(b"", code=137), "solution_error"),
    ],
)
async def test_what_an_answer_brought_on_itself_is_judged_at_once(step: Step, error_type: str | None) -> None:
    result, provider = await one(step, ends())
    assert (result.score, result.has_verdict, result.error_type) == (0.0, True, error_type)
    assert len(provider.specs) == 1


@pytest.mark.parametrize("marked", [True, False])
async def test_a_zygotes_death_is_graded_once_more_alone(marked: bool) -> None:
    result, provider = await one(breaks(ZygoteDiedError("died"), marked), ends())
    assert result.passed
    assert [spec.alone for spec in provider.specs] == [False, True]


async def test_a_zygote_that_dies_again_before_play_is_ours() -> None:
    result, provider = await one(breaks(ZygoteDiedError("died"), False))
    assert (result.error_type, result.has_verdict) == ("sandbox_error", False)
    assert [spec.alone for spec in provider.specs] == [False, True, True]


async def test_a_zygotes_second_death_is_the_answers_own() -> None:
    result, provider = await one(breaks(ZygoteDiedError("died"), True))
    assert (result.error_type, result.score, result.has_verdict) == ("policy_sandbox_failure", 0.0, True)
    assert [spec.alone for spec in provider.specs] == [False, True]


async def test_an_outage_while_it_is_graded_alone_has_no_verdict() -> None:
    result, _ = await one(breaks(ZygoteDiedError("died"), True), breaks(ProviderError("down"), True))
    assert (result.error_type, result.has_verdict) == ("provider_error", False)


async def test_a_failure_keeps_the_sandbox_closed_and_its_siblings_judged() -> None:
    provider = FakeProvider(ends(), breaks(ProviderError("down"), True), ends(WRONG), ends())
    items = [Item(environment(), "x = 1")] * 4
    results: list[RunResult | None] = [None] * 4
    await Schedule(provider).batch(items, results, 1, Deadline(None, items), Observers(()))
    assert [result and result.reward for result in results] == [1.0, None, 0.0, 1.0]
    assert provider.open_now == 0


async def test_cancelling_a_batch_keeps_what_was_finished() -> None:
    async def forever() -> None:
        await anyio.sleep_forever()

    class Hanging(FakeProvider):
        async def open(self, spec: Spec) -> FakeSandbox:
            if len(self.specs) == 2:
                await forever()
            return await super().open(spec)

    provider = Hanging(ends())
    items = [Item(environment(), "x = 1")] * 5
    results: list[RunResult | None] = [None] * 5
    with anyio.move_on_after(0.2) as scope:
        await Schedule(provider).batch(items, results, 1, Deadline(None, items), Observers(()))
    assert scope.cancelled_caught
    assert [result is not None for result in results] == [True, True, False, False, False]
    assert provider.open_now == 0


async def test_evidence_tells_of_the_run_it_is_about() -> None:
    item = Item(environment(), "def f(x): return x + 1", seed=7)
    evidence = await Schedule(FakeProvider(refuses(SandboxError("x")), ends())).evidence(Ticket(item))
    assert (evidence.attempts, evidence.seed, evidence.env_name) == (2, 7, "t")
    assert evidence.env_digest == item.env.digest
    assert len(evidence.answer_sha256) == 64
    assert set(evidence.timings) == {"queue", "open", "run", "total"}
    assert type(evidence).model_validate_json(evidence.model_dump_json()) == evidence


@pytest.mark.parametrize("kind", ["deadline", "cancelled"])
async def test_a_run_that_never_started_has_no_verdict(kind: str) -> None:
    from deepgym.contract.verdict import judge

    result = judge(unstarted(Item(environment(), "x"), kind, "no room"))
    assert (result.error_type, result.has_verdict, result.execution_time_ms) == (kind, False, 0.0)


def test_a_deadline_needs_room_for_one_run_and_its_repetition() -> None:
    items = [Item(environment(wall=1.0), ""), Item(environment(wall=20.0), "")]
    needed = 2 * worst_case(items[1].env)
    Deadline(needed, items)
    with pytest.raises(ValueError, match="raise deadline or lower"):
        Deadline(needed - 0.1, items)
    assert worst_case(items[1].env) > 20.0


def test_a_deadline_admits_only_what_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("deepgym.running.schedule.time.monotonic", lambda: now[0])
    env = environment(wall=10.0)
    deadline = Deadline(2 * worst_case(env), [Item(env, "")])
    assert deadline.admits(env)
    now[0] += worst_case(env)
    assert deadline.admits(env)
    now[0] += 0.1
    assert not deadline.admits(env)
    assert deadline.admits(environment(wall=1.0))
    assert Deadline(None, []).admits(env)


def test_no_deadline_is_too_short_for_an_empty_batch() -> None:
    Deadline(0.001, [])


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_phase(self, index: int, phase: Phase) -> None:
        self.seen.append((index, phase))

    def on_result(self, index: int, result: RunResult) -> None:
        self.seen.append((index, result.error_type))


async def test_observers_are_told_of_every_attempt() -> None:
    recorder = Recorder()
    provider = FakeProvider(refuses(SandboxError("x")), ends())
    items = [Item(environment(), "x = 1")]
    await Schedule(provider).batch(items, [None], 1, Deadline(None, items), Observers([recorder]))
    assert recorder.seen == [
        (0, Phase.QUEUED),
        (0, Phase.QUEUED),
        (0, Phase.OPENED),
        (0, Phase.PLACED),
        (0, None),
    ]
