"""Who is graded once more with more time, and whose time-out stands.

The provider's answers need as many seconds as their script says, by a clock that only they move on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest

from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.exceptions import ProviderError
from deepgym.models import RunResult
from deepgym.providers.base import Capabilities, Exit, Job, Limits, Spec
from deepgym.running.batch import Deadline, Item, worst_case
from deepgym.running.calibration import CAP, FRESH, Calibration
from deepgym.running.observers import Observers
from deepgym.running.schedule import Schedule
from deepgym.sandboxed.wire import decode, encode

pytestmark = pytest.mark.anyio

FOREVER = 1e9


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Needs:
    """What an answer takes: seconds in all, of the processor, and of each case; and how it replies."""

    wall: float = 0.0
    cpu: float = 0.0
    cases: tuple[float, ...] = (0.0, 0.0)
    value: int = 2
    refusal: Exception | None = None


class Host:
    """A provider, its clock, and what was run on it: each answer with the limits it had."""

    name = "host"
    capabilities = Capabilities(isolation="none")

    def __init__(self, **script: Needs) -> None:
        self.script = script
        self.now = 1000.0
        self.runs: list[tuple[str, Limits]] = []
        self.open = 0
        self.most_open = 0
        self.after: dict[str, Callable[[], object]] = {}

    def clock(self) -> float:
        return self.now

    def times(self, answer: str) -> list[float]:
        """The wall limit of each run of this answer."""
        return [limits.wall for name, limits in self.runs if name == answer]


class Provider:
    name = "host"
    capabilities = Capabilities(isolation="none")

    def __init__(self, host: Host) -> None:
        self.host = host

    async def open(self, spec: Spec) -> Place:
        await anyio.lowlevel.checkpoint()
        self.host.open += 1
        self.host.most_open = max(self.host.most_open, self.host.open)
        return Place(self.host, spec)

    async def close(self) -> None: ...


@dataclass
class Place:
    host: Host
    spec: Spec
    id: str = "host-0"
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(isolation="none"))
    started: int = 0

    async def start(self, job: Job) -> Process:
        name = (job.answer or job.text).decode().strip()
        if self.started == 0:
            self.host.runs.append((name, self.spec.limits))
        self.started += 1
        needs = self.host.script[name]
        if needs.refusal is not None and self.host.times(name)[1:]:
            raise needs.refusal
        return Process(self, needs, job)

    def opened_by_verifier(self) -> Literal["no"]:
        return "no"

    async def close(self) -> None:
        self.host.open -= 1
        name, _ = self.host.runs[-1]
        self.host.after.get(name, lambda: None)()


class Process:
    def __init__(self, place: Place, needs: Needs, job: Job) -> None:
        self.host, self.limits, self.needs, self.job = place.host, place.spec.limits, needs, job
        self.marked_at: float | None = self.host.now
        self.stdout = self.stderr = b""
        self.truncated = self.overflow = False
        self.running, self.busy = True, False
        self.asked = b""
        self.replies = bytearray(b"".join(self.reply(line) + b"\n" for line in job.requests.splitlines()))
        if job.role == "verifier":
            self.replies += b'{"score":1.0,"passed":true}\n#{"fault":null}\n'

    def reply(self, line: bytes) -> bytes:
        request = decode(line)
        number, printed = request["id"], request.get("run")
        if printed is None:
            return encode({"id": number, "v": self.needs.value})
        # A program's cases are timed beside it.
        seconds, limit = self.needs.cases[number - 1], printed["t"]
        late = limit is not None and seconds > limit
        self.host.now += limit if late else seconds
        said = {"out": str(self.needs.value), "err": "", "exit": 0, "timed_out": late, "cut": False}
        return encode({"id": number, "v": said})

    async def send(self, data: bytes) -> None:
        self.asked = data.strip()

    async def finish_requests(self) -> None: ...

    async def line(self, timeout: float) -> bytes | None:
        request = decode(self.asked)
        if "run" not in request:
            seconds = self.needs.cases[request["id"] - 1]
            self.host.now += min(seconds, timeout)
            self.busy = seconds > timeout
            if self.busy:
                return None
        return self.reply(self.asked)

    async def end(self, wall: float) -> Exit:
        await anyio.lowlevel.checkpoint()
        self.running = False
        self.host.now += min(self.needs.wall, wall)
        cpu = min(self.needs.cpu, self.limits.cpu) * 1000.0
        late = self.busy or self.needs.wall > wall
        if self.needs.cpu <= self.limits.cpu and not late:
            return Exit(code=0, cpu_ms=cpu)
        self.replies.clear()
        if late:
            return Exit(killed=True, clock="wall", cpu_ms=cpu)
        return Exit(signal=24, clock="cpu", cpu_ms=cpu)

    async def settle(self) -> Exit:
        return Exit(killed=True)

    async def kill(self) -> None:
        self.running = False


CALLED = Cases(function="f", cases=(Case(args=(1,), expected=2), Case(args=(1,), expected=2)))
PRINTED = Cases(cases=(Case(stdin="1", stdout="2"), Case(stdin="1", stdout="2")))
VERIFIED = Program(source="def verify(solution):\n    return True\n")


def environment(verify: Cases | Program = CALLED, **limits: Any) -> Environment:
    limits.setdefault("wall", 10.0)
    return Environment(
        name="t", task="t", verify=verify, reference="reference", limits=EnvironmentLimits(**limits)
    )


class Judged:
    """A schedule on a host, whose clock is everybody's."""

    def __init__(self, host: Host, env: Environment) -> None:
        self.host, self.env = host, env
        self.schedule = Schedule(Provider(host))  # type: ignore[arg-type]
        self.schedule._calibration = Calibration(self.schedule._reference, host.clock)

    async def __call__(self, *answers: str, seconds: float | None = None) -> list[RunResult]:
        items = [Item(self.env, answer) for answer in answers]
        results: list[RunResult | None] = [None] * len(items)
        deadline = Deadline(seconds, items)
        await self.schedule.batch(items, results, len(items), deadline, Observers(()))
        assert self.host.open == 0
        assert None not in results
        return [result for result in results if result is not None]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Judged]:
    def make(host: Host, env: Environment | None = None) -> Judged:
        for room in ("run", "batch", "schedule"):
            monkeypatch.setattr(f"deepgym.running.{room}.time", SimpleNamespace(monotonic=host.clock))
        return Judged(host, env or environment())

    return make


def seen(results: Sequence[RunResult]) -> list[tuple[float, str | None, float]]:
    return [(result.score, result.error_type, result.limit_scale) for result in results]


Make = Callable[..., Judged]


@pytest.mark.parametrize("verify", [CALLED, PRINTED, VERIFIED], ids=["called", "printed", "verified"])
async def test_an_answer_passes_with_more_time_where_the_reference_is_slow(
    judged: Make, verify: Cases | Program
) -> None:
    host = Host(slow=Needs(wall=15.0), reference=Needs(wall=6.0))
    assert seen(await judged(host, environment(verify))("slow")) == [(1.0, None, 3.0)]
    assert host.times("slow") == [10.0, 30.0]
    assert host.times("reference") == [10.0 * CAP]


async def test_a_time_out_stands_where_the_reference_is_fast(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), reference=Needs(wall=2.0))
    assert seen(await judged(host)("slow")) == [(0.0, "solution_timeout", 1.0)]
    assert host.times("slow") == [10.0]


async def test_a_limit_of_processor_time_is_measured_too(judged: Make) -> None:
    host = Host(busy=Needs(wall=3.0, cpu=2.5), reference=Needs(wall=1.0, cpu=0.6))
    assert seen(await judged(host, environment(cpu=1.0))("busy")) == [(1.0, None, 3.0)]
    assert [limits.cpu for name, limits in host.runs if name == "busy"] == [1.0, 3.0]


@pytest.mark.parametrize("verify", [CALLED, PRINTED], ids=["called", "printed"])
async def test_a_cases_own_limit_is_measured_too(judged: Make, verify: Cases) -> None:
    host = Host(slow=Needs(cases=(0.1, 2.0)), reference=Needs(cases=(0.1, 0.6)))
    assert seen(await judged(host, environment(verify, case_timeout=1.0))("slow")) == [(1.0, None, 3.0)]
    assert host.times("slow") == [10.0, 30.0]


@pytest.mark.parametrize("verify", [CALLED, PRINTED], ids=["called", "printed"])
async def test_a_case_that_is_too_slow_still_fails_alone(judged: Make, verify: Cases) -> None:
    host = Host(slow=Needs(cases=(0.1, 5.0)), reference=Needs(cases=(0.1, 0.6)))
    (result,) = await judged(host, environment(verify, case_timeout=1.0))("slow")
    assert seen([result]) == [(0.5, None, 3.0)]
    assert [case.outcome for case in result.cases] == ["passed", "timeout"]
    host = Host(slow=Needs(cases=(0.1, 2.0)), reference=Needs(cases=(0.1, 0.2)))
    assert seen(await judged(host, environment(verify, case_timeout=1.0))("slow")) == [(0.5, None, 1.0)]


async def test_cases_that_are_asked_one_by_one_have_the_longer_limit_together(judged: Make) -> None:
    host = Host(slow=Needs(cases=(0.9, 0.9)), reference=Needs(cases=(0.4, 0.4)))
    run = judged(host, environment(wall=1.5, case_timeout=1.0))
    assert seen(await run("slow")) == [(1.0, None, 2.67)]
    assert host.times("slow") == [1.5, pytest.approx(1.5 * 2.67)]


async def test_an_endless_loop_is_a_judged_zero_in_bounded_time(judged: Make) -> None:
    host = Host(loop=Needs(wall=FOREVER), reference=Needs(wall=9.0))
    began = host.now
    assert seen(await judged(host)("loop")) == [(0.0, "solution_timeout", CAP)]
    assert host.times("loop") == [10.0, 10.0 * CAP]
    assert host.now - began == 10.0 * (1 + CAP) + 9.0


async def test_no_time_is_added_for_a_reference_that_ends_at_no_limit(judged: Make) -> None:
    host = Host(loop=Needs(wall=FOREVER), reference=Needs(wall=FOREVER))
    began = host.now
    assert seen(await judged(host)("loop")) == [(0.0, "solution_timeout", 1.0)]
    assert host.now - began == 10.0 * (1 + CAP)


@pytest.mark.parametrize("answer", [Needs(), Needs(value=3), Needs(wall=9.9)])
async def test_a_run_within_its_limits_asks_for_no_measurement(judged: Make, answer: Needs) -> None:
    host = Host(answer=answer, reference=Needs(wall=6.0))
    await judged(host)("answer")
    assert [name for name, _ in host.runs] == ["answer"]


async def test_the_reference_is_run_when_the_answers_sandbox_is_closed(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), reference=Needs(wall=6.0))
    await judged(host)("slow")
    assert host.most_open == 1


async def test_fifty_that_run_out_of_time_at_once_wait_for_one_measurement(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), loop=Needs(wall=FOREVER), reference=Needs(wall=6.0))
    results = await judged(host)(*["slow", "loop"] * 25)
    assert seen(results) == [(1.0, None, 3.0), (0.0, "solution_timeout", 3.0)] * 25
    assert len(host.times("reference")) == 1
    assert host.times("slow") == [10.0] * 25 + [30.0] * 25


async def test_later_runs_start_with_more_time_for_a_minute(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), quick=Needs(), reference=Needs(wall=6.0))
    run = judged(host)
    await run("slow")
    assert seen(await run("quick")) == [(1.0, None, 3.0)]
    assert host.times("quick") == [30.0]
    host.now += FRESH
    assert seen(await run("quick")) == [(1.0, None, 1.0)]
    assert host.times("quick") == [30.0, 10.0]
    host.script["reference"] = Needs(wall=4.0)
    assert seen(await run("slow")) == [(1.0, None, 2.0)]
    assert len(host.times("reference")) == 2


async def test_a_run_that_started_with_more_time_is_not_graded_again(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), loop=Needs(wall=FOREVER), reference=Needs(wall=6.0))
    run = judged(host)
    await run("slow")
    host.script["reference"] = Needs(wall=9.0)
    host.now += FRESH - 35.0
    assert seen(await run("loop")) == [(0.0, "solution_timeout", 3.0)]
    assert (host.times("loop"), len(host.times("reference"))) == ([30.0], 1)


async def test_a_deadline_without_room_for_the_reference_lets_the_time_out_stand(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), reference=Needs(wall=6.0))
    run = judged(host)
    room = worst_case(run.env, CAP)
    assert seen(await run("slow", seconds=10.0 + room - 0.1)) == [(0.0, "solution_timeout", 1.0)]
    assert host.times("reference") == []
    assert seen(await run("slow", seconds=10.0 + room)) == [(1.0, None, 3.0)]


async def test_a_deadline_without_room_for_the_longer_run_lets_the_time_out_stand(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), reference=Needs(wall=8.0))
    run = judged(host)
    needed = 10.0 + 8.0 + worst_case(run.env, CAP)
    assert seen(await run("slow", seconds=needed - 0.1)) == [(0.0, "solution_timeout", 1.0)]
    assert len(host.times("reference")) == 1
    host.now += FRESH
    assert seen(await run("slow", seconds=needed)) == [(1.0, None, CAP)]


async def test_a_deadline_without_room_for_more_time_starts_runs_as_they_are(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0), quick=Needs(), reference=Needs(wall=6.0))
    run = judged(host)
    await run("slow")
    assert seen(await run("quick", seconds=worst_case(run.env, 3.0) - 0.1)) == [(1.0, None, 1.0)]
    assert seen(await run("quick", seconds=worst_case(run.env, 3.0))) == [(1.0, None, 3.0)]


async def test_an_outage_when_it_is_graded_once_more_has_no_verdict(judged: Make) -> None:
    host = Host(slow=Needs(wall=15.0, refusal=ProviderError("down")), reference=Needs(wall=6.0))
    assert seen(await judged(host)("slow")) == [(0.0, "provider_error", 3.0)]


async def test_whoever_watches_a_run_sees_no_reference(judged: Make) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.phases: list[tuple[int, Phase]] = []
            self.results: list[int] = []

        def on_phase(self, index: int, phase: Phase) -> None:
            self.phases.append((index, phase))

        def on_result(self, index: int, result: Any) -> None:
            self.results.append(index)

    host, recorder = Host(slow=Needs(wall=15.0), reference=Needs(wall=6.0)), Recorder()
    run = judged(host)
    items = [Item(run.env, "slow")]
    await run.schedule.batch(items, [None], 1, Deadline(None, items), Observers([recorder]))
    assert recorder.phases == [(0, phase) for phase in (Phase.QUEUED, Phase.OPENED, Phase.PLACED)] * 2
    assert recorder.results == [0]
