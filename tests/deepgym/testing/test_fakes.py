"""The fakes behave as they say, and as the local provider does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from deepgym.client import AsyncDeepGym, DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.exceptions import SandboxError
from deepgym.models import RunResult
from deepgym.providers.base import Job, Spec
from deepgym.testing import FAULTS, Behaviour, FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, HALF, PROGRAM, SCRIPT


def run(env: Environment, provider: Any, answer: str = "x") -> RunResult:
    with DeepGym(provider=provider) as dg:
        return dg.run_batch(env, [answer]).results[0]


def environment(verify: Any, **fields: Any) -> Environment:
    return Environment(name="test/fake", task="Do it.", verify=verify, **fields)


def test_a_callable_stands_for_an_answer() -> None:
    result = run(ADD, FakeProvider({"x": lambda a, b: a + b}))
    assert (result.reward, result.passed, result.isolation) == (1.0, True, "fake")


def test_an_answer_that_is_not_scripted_defines_nothing() -> None:
    result = run(ADD, FakeProvider())
    assert (result.reward, result.error_type) == (0.0, None)
    assert [case.outcome for case in result.cases] == ["raised", "raised"]
    assert run(PROGRAM, FakeProvider()).reward == 0.0


def test_otherwise_answers_everything_else() -> None:
    assert run(ADD, FakeProvider(otherwise=lambda a, b: a + b)).reward == 1.0


def test_outer_blank_space_of_an_answer_does_not_matter() -> None:
    assert run(ADD, FakeProvider({" x\n": lambda a, b: a + b}), "\n\nx ").reward == 1.0


def test_programs_classes_and_named_arguments_are_called_too() -> None:
    printed = environment(Cases(cases=(Case(stdin="2\n", stdout="4"),)))
    assert run(printed, FakeProvider({"x": lambda stdin: str(2 * int(stdin))})).reward == 1.0

    class Counter:
        def __init__(self, start: int) -> None:
            self.value = start

        def add(self, more: int) -> int:
            self.value += more
            return self.value

    calls = Case(calls=(("Counter", 1), ("add", 2)), expected=[None, 3])
    assert (
        run(environment(Cases(function="Counter", cases=(calls,))), FakeProvider({"x": Counter})).reward
        == 1.0
    )
    named = environment(Cases(function="f", cases=(Case(kwargs={"a": (1, 2)}, expected={3}),)))
    assert run(named, FakeProvider({"x": lambda a: {sum(a)}})).reward == 1.0


def test_drawn_cases_are_drawn_for_real() -> None:
    draw = "def draw(rng):\n    n = rng.randrange(100)\n    return [{'args': (n,), 'expected': n + 1}]\n"
    env = environment(Cases(function="f", draw=draw))
    assert run(env, FakeProvider({"x": lambda n: n + 1})).reward == 1.0
    assert run(env, FakeProvider({"x": lambda n: n})).reward == 0.0


def test_a_draw_that_fails_is_nobodys_zero() -> None:
    env = environment(Cases(function="f", draw="def draw(rng):\n    raise KeyError('no')\n"))
    result = run(env, FakeProvider({"x": lambda: 1}))
    assert (result.has_verdict, result.reward) == (False, None)


ENDINGS: dict[str, tuple[Behaviour, str]] = {
    "dies": (Behaviour.dies(), "solution_error"),
    "dies half way": (Behaviour.dies(1, call=lambda a, b: a + b), "solution_error"),
    "loops": (Behaviour.loops(), "solution_timeout"),
    "burns": (Behaviour.loops("cpu"), "solution_timeout"),
    "floods": (Behaviour.loops("output"), "solution_error"),
    "breaks its sandbox": (Behaviour.breaks_sandbox(), "policy_sandbox_failure"),
    "never marks": (Behaviour.loops(marks=False), "timeout"),
}


@pytest.mark.parametrize(("behaviour", "error_type"), ENDINGS.values(), ids=ENDINGS)
def test_each_ending_is_judged_as_the_real_one(behaviour: Behaviour, error_type: str) -> None:
    assert run(ADD, FakeProvider({"x": behaviour})).error_type == error_type


def test_replies_that_make_no_sense_fail_the_run() -> None:
    result = run(ADD, FakeProvider({"x": Behaviour(raw=b'{"id": 99, "v": 3}')}))
    assert (result.reward, result.error_type) == (0.0, "solution_error")


def test_output_comes_back() -> None:
    behaviour = Behaviour(call=lambda a, b: a + b, stdout=b"out", stderr=b"err")
    result = run(ADD, FakeProvider({"x": behaviour}))
    assert (result.output, result.stderr) == ("out", "err")


REPORTS: dict[str, tuple[Behaviour, str | None, float | None]] = {
    "full score": (Behaviour.reports(1.0), None, 1.0),
    "half": (Behaviour.reports(0.5), None, 0.5),
    "passed with little": (Behaviour.reports(0.25, True), None, 0.25),
    "nothing": (Behaviour(), "solution_error", 0.0),
    "nonsense": (Behaviour(report=b"?"), "solution_error", 0.0),
    "crash": (Behaviour.crashes_verifier(), "solution_error", 0.0),
    "gives up": (Behaviour.crashes_verifier(2), "verifier_error", None),
    "a dead solution": (Behaviour.reports(1.0, fault="gone"), "solution_error", 0.0),
    "asks nothing": (Behaviour.reports(1.0, asks=False), "verifier_error", None),
    "reads the file": (Behaviour.reports(1.0, asks=False, opens=True), None, 1.0),
    "loops": (Behaviour.loops(), "solution_timeout", 0.0),
}


@pytest.mark.parametrize(("behaviour", "error_type", "reward"), REPORTS.values(), ids=REPORTS)
def test_each_report_is_judged_as_the_real_one(
    behaviour: Behaviour, error_type: str | None, reward: float | None
) -> None:
    result = run(PROGRAM, FakeProvider({"x": behaviour}))
    assert (result.error_type, result.reward) == (error_type, reward)


def test_a_case_that_hangs_times_out_alone() -> None:
    env = environment(
        Cases(function="f", cases=(Case(args=(1,), expected=1), Case(args=(2,), expected=2))),
        limits=EnvironmentLimits(wall=5.0, case_timeout=0.5),
    )
    result = run(env, FakeProvider({"x": Behaviour.loops(call=lambda n: n)}))
    assert [case.outcome for case in result.cases] == ["timeout", "timeout"]
    assert (result.error_type, result.reward) == (None, 0.0)
    assert run(env, FakeProvider({"x": lambda n: n})).reward == 1.0
    assert run(env, FakeProvider({"x": Behaviour.dies(1, call=lambda n: n)})).error_type == "solution_error"


def test_what_was_opened_is_closed_and_counted() -> None:
    provider = FakeProvider({"x": Behaviour.calls(lambda a, b: a + b, seconds=0.01)})
    with DeepGym(provider=provider, max_parallel=3) as dg:
        dg.run_batch(ADD, ["x"] * 9)
    assert (provider.opened, provider.closed, provider.started) == (9, 9, {"x": 9})
    assert 1 < provider.busiest <= 3


def test_a_closed_sandbox_starts_nothing() -> None:
    async def main() -> None:
        sandbox = await FakeProvider().open(Spec())
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.start(Job("solution", b""))

    anyio.run(main)


def test_a_process_replies_line_by_line_and_ends_once() -> None:
    async def main() -> None:
        sandbox = await FakeProvider({"x": lambda n: n + 1}).open(Spec())
        process = await sandbox.start(Job("solution", b"x", requests=b'{"id":1,"a":[1]}\n'))
        assert process.running
        assert process.marked_at is not None
        assert await process.line(1.0) == b'{"id":1,"v":2}'
        assert await process.line(0.0) is None
        await process.send(b'{"id":2,"a":[5]}\n')
        assert await process.line(1.0) == b'{"id":2,"v":6}'
        await process.finish_requests()
        ended = await process.end(1.0)
        await process.kill()
        assert (await process.settle(), process.running) == (ended, False)
        await process.send(b'{"id":3,"a":[5]}\n')
        assert await process.line(0.0) is None

    anyio.run(main)


def test_a_process_can_be_killed_or_settled_before_its_end() -> None:
    async def main() -> None:
        sandbox = await FakeProvider({"x": lambda n: n}).open(Spec())
        killed = await sandbox.start(Job("solution", b"x"))
        await killed.kill()
        assert (await killed.end(1.0)).killed
        settled = await sandbox.start(Job("solution", b"x"))
        assert (await settled.settle()).code == 0

    anyio.run(main)


def test_a_fake_enforces_nothing_and_says_so() -> None:
    capabilities = FaultyProvider(FakeProvider(), FAULTS[0]).capabilities
    assert (capabilities.isolation, capabilities.network) == ("fake", "none")


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: FaultyProvider(p, Fault("network"))])
def test_providers_pickle(wrap: Callable[[Any], Any]) -> None:
    again = pickle.loads(pickle.dumps(wrap(FakeProvider(SCRIPT))))
    expected = 1.0 if isinstance(again, FakeProvider) else None
    assert run(ADD, again, GOOD).reward == expected


# Faults.


@pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_each_fault_becomes_the_error_type_it_names(env: Environment, fault: Fault) -> None:
    result = run(env, FaultyProvider(FakeProvider(SCRIPT), fault), GOOD)
    assert result.error_type == fault.error_type


def test_a_fault_at_the_close_is_no_error_type() -> None:
    assert Fault("provider", Phase.CLOSED).error_type is None


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.OPENED, Phase.CLOSED])
def test_a_fault_of_a_process_needs_one(phase: Phase) -> None:
    with pytest.raises(ValueError, match="no process runs then"):
        Fault("timeout", phase)


def test_a_fault_before_any_answer_is_known_cannot_be_aimed() -> None:
    with pytest.raises(ValueError, match="no answer is known"):
        FaultyProvider(FakeProvider(), Fault("network"), answers={GOOD})


def strikes(seed: int, rate: float) -> list[bool]:
    provider = FaultyProvider(FakeProvider(), Fault("network", Phase.OPENED), rate=rate, seed=seed)
    return [provider.strikes(f"answer {index}") for index in range(200)]


def test_a_rate_is_kept_and_repeats_by_its_seed() -> None:
    assert 30 < sum(strikes(1, 0.3)) < 90
    assert strikes(1, 0.3) == strikes(1, 0.3)
    assert strikes(1, 0.3) != strikes(2, 0.3)
    assert (sum(strikes(1, 0.0)), sum(strikes(1, 1.0))) == (0, 200)


def test_a_fault_strikes_each_answer_as_often_as_it_may() -> None:
    provider = FaultyProvider(FakeProvider(), Fault("network", Phase.OPENED), times=2, answers={"a", "b"})
    assert [provider.strikes(answer) for answer in "aaabc"] == [True, True, False, True, False]
    assert provider.struck == {"a": 2, "b": 1}


def test_a_zygote_that_dies_once_costs_no_verdict() -> None:
    fault = Fault("zygote", Phase.IN_PLAY)
    result = run(ADD, FaultyProvider(FakeProvider(SCRIPT), fault, times=1), HALF)
    assert (result.reward, result.error_type) == (0.5, None)


def test_a_fault_leaves_the_drawing_of_cases_alone() -> None:
    draw = "def draw(rng):\n    return [{'args': (1,), 'expected': 1}]\n"
    env = environment(Cases(function="f", draw=draw))
    provider = FaultyProvider(FakeProvider({"x": lambda n: n}), Fault("died", Phase.REPORTED), answers={"y"})
    assert run(env, provider).reward == 1.0


# The package and its plugin.


def test_the_package_has_no_other_names() -> None:
    import deepgym.testing

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = deepgym.testing.nothing  # type: ignore[attr-defined]


def test_the_plugin_makes_both_providers(
    fake_provider: Callable[..., FakeProvider], faulty_provider: Callable[..., FaultyProvider]
) -> None:
    provider = faulty_provider(fake_provider(SCRIPT), "evicted", "reported", answers={GOOD})
    assert run(ADD, provider, GOOD).error_type == "provider_error"
    assert run(ADD, provider, HALF).reward == 0.5


def test_the_plugin_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; import pytest; before = set(sys.modules); import deepgym.testing.plugin;"
        "new = set(sys.modules) - before;"
        "assert not {'pydantic', 'anyio', 'hypothesis', 'deepgym.testing.fakes', 'deepgym.client'} & new, new"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_verifier_that_reads_the_source_is_seen() -> None:
    env = environment(Program(source="def verify(solution):\n    return bool(solution.source())\n"))

    async def main() -> RunResult:
        async with AsyncDeepGym(
            provider=FakeProvider({"x": Behaviour.reports(1.0, asks=False, opens=True)})
        ) as dg:
            return await dg.run(env, "x")

    assert anyio.run(main).reward == 1.0
