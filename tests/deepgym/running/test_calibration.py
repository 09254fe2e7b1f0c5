"""A measurement of an environment's reference: what it makes of the limits, how long it holds, who shares it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from deepgym.contract.evidence import CaseFact, Evidence, Failure, Side
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.running.batch import Deadline, Item, worst_case
from deepgym.running.calibration import CAP, FRESH, HEADROOM, Calibration, ran_out_of_time, scale_for
from deepgym.running.limits import scaled

pytestmark = pytest.mark.anyio

DRAW = "def draw(rng):\n    return []\n"
VERIFY = "def verify(solution):\n    return True\n"
REFERENCE = "def f(x): return x + 1"
PASSED, WRONG = CaseFact(outcome="passed"), CaseFact(outcome="wrong")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def environment(draw: str | None = None, **fields: Any) -> Environment:
    cases = Cases(function="f", cases=(Case(args=(1,), expected=2),), draw=draw)
    limits = {"wall": 10.0, **fields.pop("limits", {})}
    return Environment(
        name="t",
        task="t",
        limits=EnvironmentLimits(**limits),
        **{"verify": cases, "reference": REFERENCE, **fields},
    )


def evidence(wall: float = 0.0, cpu: float = 0.0, **facts: Any) -> Evidence:
    """What a run that passed shows, with the seconds that it took."""
    return Evidence(
        **{
            "in_play": True,
            "execution_time_ms": wall * 1000.0,
            "solution": Side(exit_code=0, cpu_ms=cpu * 1000.0),
            "cases": (PASSED,),
            **facts,
        }
    )


class Measure:
    """Stands for runs of a reference: each takes ``found``, and waits for ``gate`` if there is one."""

    def __init__(self, found: Evidence, gate: Callable[[], Awaitable[object]] | None = None) -> None:
        self.found, self.gate = found, gate
        self.items: list[Item] = []

    async def __call__(self, item: Item, deadline: Deadline) -> Evidence:
        self.items.append(item)
        await anyio.lowlevel.checkpoint()
        if self.gate is not None:
            await self.gate()
        return self.found


def forever() -> Deadline:
    return Deadline(None, ())


@pytest.mark.parametrize(
    ("found", "limits", "scale"),
    [
        (evidence(wall=0.01), {}, 1.0),
        (evidence(wall=2.0), {}, 1.0),
        (evidence(wall=4.0), {}, 2.0),
        (evidence(wall=12.0), {}, CAP),
        (evidence(wall=0.3), {"wall": 0.5}, 3.0),
        (evidence(wall=0.1, cpu=3.0), {}, 1.5),
        (evidence(wall=0.1, cpu=3.0), {"cpu": 5.0}, 3.0),
        (evidence(wall=3.0, cpu=3.0), {"cpu": 50.0}, 1.5),
        (evidence(verifier=Side(exit_code=0, cpu_ms=4000.0), cases=None), {}, 2.0),
        (
            evidence(
                cases=(PASSED, PASSED.model_copy(update={"execution_time_ms": 500.0}), PASSED),
            ),
            {"case_timeout": 1.0},
            2.5,
        ),
        (evidence(cases=(PASSED.model_copy(update={"execution_time_ms": 500.0}),)), {}, 1.0),
    ],
)
async def test_the_limits_hold_five_times_what_the_reference_needed(
    found: Evidence, limits: dict[str, float], scale: float
) -> None:
    assert HEADROOM == 5
    env = environment(limits=limits)
    assert scale_for(env, found) == pytest.approx(scale)


def test_all_three_times_are_multiplied_and_nothing_else() -> None:
    limits = EnvironmentLimits(wall=2.0, cpu=1.0, case_timeout=0.5)
    longer = scaled(limits, 3.0)
    assert (longer.wall, longer.cpu, longer.case_timeout) == (6.0, 3.0, 1.5)
    rest = {"wall", "cpu", "case_timeout"}
    assert longer.model_dump(exclude=rest) == limits.model_dump(exclude=rest)
    assert scaled(limits, 1.0) is limits
    unset = scaled(EnvironmentLimits(wall=2.0), 2.0)
    assert (unset.cpu, unset.cpu_seconds, unset.case_timeout) == (None, 4.0, None)


@pytest.mark.parametrize(
    ("found", "limits", "over"),
    [
        (evidence(clock="wall"), {}, True),
        (evidence(clock="cpu"), {}, True),
        (evidence(clock="output"), {}, False),
        (evidence(), {}, False),
        (evidence(cases=(WRONG,)), {"case_timeout": 1.0}, False),
        (evidence(cases=(PASSED, CaseFact(outcome="timeout"))), {"case_timeout": 1.0}, True),
        (evidence(clock="setup", in_play=False), {}, False),
        (evidence(clock="wall", in_play=False), {}, False),
        (evidence(clock="wall", failure=Failure(kind="network")), {}, False),
    ],
)
async def test_only_a_time_limit_after_play_asks_for_a_measurement(
    found: Evidence, limits: dict[str, float], over: bool
) -> None:
    assert ran_out_of_time(environment(limits=limits), found) is over


async def test_the_reference_is_run_with_the_answers_seed() -> None:
    measure = Measure(evidence(wall=4.0))
    env = environment()
    assert await Calibration(measure).scale(Item(env, "loop", seed=7), forever()) == 2.0
    assert measure.items == [Item(env, REFERENCE, seed=7)]


async def test_without_a_reference_nothing_is_run() -> None:
    measure = Measure(evidence(wall=4.0))
    assert await Calibration(measure).scale(Item(environment(reference=None), "loop"), forever()) == 1.0
    assert measure.items == []


async def test_a_measurement_holds_for_a_minute() -> None:
    now = [0.0]
    measure = Measure(evidence(wall=4.0))
    calibration = Calibration(measure, lambda: now[0])
    item = Item(environment(), "loop")
    assert calibration.known(item) == 1.0
    assert await calibration.scale(item, forever()) == 2.0
    now[0] = FRESH - 0.1
    assert calibration.known(item) == 2.0
    assert await calibration.scale(item, forever()) == 2.0
    assert len(measure.items) == 1
    now[0] = FRESH + 0.1
    measure.found = evidence(wall=6.0)
    assert calibration.known(item) == 1.0
    assert await calibration.scale(item, forever()) == 3.0
    assert calibration.known(item) == 3.0
    assert len(measure.items) == 2


@pytest.mark.parametrize(
    ("fields", "apart"),
    [
        ({}, 1),
        ({"draw": DRAW}, 2),
        ({"verify": Program(source=VERIFY)}, 1),
        ({"verify": Program(source=VERIFY, seeded=True)}, 2),
    ],
    ids=["fixed", "drawn", "program", "seeded program"],
)
async def test_a_seed_that_makes_other_tests_is_measured_apart(fields: dict[str, Any], apart: int) -> None:
    measure = Measure(evidence(wall=4.0))
    calibration, env = Calibration(measure), environment(**fields)
    for seed in (1, 2, 1):
        await calibration.scale(Item(env, "loop", seed=seed), forever())
    assert len(measure.items) == apart


async def test_environments_are_measured_apart() -> None:
    measure = Measure(evidence(wall=4.0))
    calibration = Calibration(measure)
    await calibration.scale(Item(environment(), "loop"), forever())
    other = Item(environment(limits={"wall": 40.0}), "loop")
    assert calibration.known(other) == 1.0
    assert await calibration.scale(other, forever()) == 1.0


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (evidence(wall=4.0, cases=(WRONG,)), "got 0.0 (a wrong result)"),
        (evidence(wall=4.0, cases=(PASSED, WRONG)), "got 0.5 (a wrong result)"),
        (evidence(wall=4.0, solution_died=True), "got 0.0 (the solution's process ended early"),
        (evidence(wall=40.0, clock="wall"), "got 0.0 (the wall limit was exceeded)"),
        (evidence(wall=4.0, failure=Failure(kind="network", message="x")), "got no verdict (x)"),
    ],
    ids=["wrong", "partly right", "died", "too slow for the cap", "no verdict"],
)
async def test_a_reference_without_a_full_score_changes_nothing_and_is_reported_once(
    found: Evidence, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    measure = Measure(found)
    calibration = Calibration(measure, lambda: now[0])
    item = Item(environment(), "loop")
    with caplog.at_level(logging.WARNING, "deepgym"):
        for _ in range(2):
            assert await calibration.scale(item, forever()) == 1.0
            now[0] += FRESH + 1
    assert len(measure.items) == 2
    (record,) = caplog.records
    assert said in record.getMessage()
    assert "'t'" in record.getMessage()


async def test_fifty_that_ask_at_once_share_one_measurement() -> None:
    gate = anyio.Event()
    measure = Measure(evidence(wall=4.0), gate.wait)
    calibration, found = Calibration(measure), []

    async def ask() -> None:
        found.append(await calibration.scale(Item(environment(), "loop"), forever()))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        gate.set()
    assert found == [2.0] * 50
    assert len(measure.items) == 1


async def test_when_whoever_measures_is_cancelled_another_one_measures() -> None:
    gate = anyio.Event()
    measure = Measure(evidence(wall=4.0), gate.wait)
    calibration, found = Calibration(measure), []

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await calibration.scale(Item(environment(), "loop"), forever()))

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(ask, first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask, second)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert found == [2.0]
    assert len(measure.items) == 2


def test_an_event_loop_never_waits_for_another_ones_measurement() -> None:
    begun, over = threading.Event(), threading.Event()

    async def held() -> None:
        if not begun.is_set():
            begun.set()
            await anyio.to_thread.run_sync(over.wait)

    calibration = Calibration(Measure(evidence(wall=4.0), held))
    item = Item(environment(), "loop")
    other = threading.Thread(target=lambda: anyio.run(calibration.scale, item, forever()))
    other.start()
    try:
        assert begun.wait(30.0)
        assert anyio.run(calibration.scale, item, forever()) == 2.0
    finally:
        over.set()
        other.join(30.0)


async def test_a_deadline_has_to_hold_the_reference_at_its_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("deepgym.running.batch.time.monotonic", lambda: now[0])
    measure = Measure(evidence(wall=4.0))
    item = Item(environment(), "loop")
    deadline = Deadline(worst_case(item.env, CAP), [item])
    calibration = Calibration(measure, lambda: now[0])
    now[0] += 0.1
    assert await calibration.scale(item, deadline) == 1.0
    assert measure.items == []
    now[0] -= 0.1
    assert await calibration.scale(item, deadline) == 2.0
    now[0] += 0.1
    assert await calibration.scale(item, deadline) == 2.0
