"""Batches, streams and evals: order, length, deadlines, arguments, observers."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program, Suite
from deepgym.exceptions import UnknownNameError, VerifierError

RIGHT = "def f(x): return x + 1"
WRONG = "def f(x): return x"
SLOW = "import time\ndef f(x):\n    time.sleep(0.3)\n    return x + 1"

needs_sandbox = pytest.mark.local_sandbox


def adding(number: int, wall: float = 20.0, name: str = "") -> Environment:
    """``f(1)`` must be ``1 + number``."""
    cases = Cases(function="f", cases=(Case(args=(1,), expected=1 + number),))
    return Environment(
        name=name or f"add-{number}", task="t", verify=cases, limits=EnvironmentLimits(wall=wall)
    )


BROKEN = Environment(name="broken", task="t", verify=Program(source="raise ValueError('broken')"))

MIX: list[tuple[str, str | None, float]] = [
    (RIGHT, None, 1.0),
    (WRONG, None, 0.0),
    ("def f(x:", "solution_error", 0.0),
    (SLOW, None, 1.0),
    ("while True: pass", "solution_timeout", 0.0),
    ("import os\nos._exit(2)", "solution_error", 0.0),
    (RIGHT, None, 1.0),
    ("", "solution_error", 0.0),
    ("import os\nos.kill(os.getpid(), 9)", "solution_error", 0.0),
    (RIGHT, None, 1.0),
]


@needs_sandbox
@pytest.mark.parametrize("parallel", [1, 7])
def test_results_stand_in_the_order_of_the_outputs_whatever_failed(dg: DeepGym, parallel: int) -> None:
    batch = dg.run_batch(adding(1, wall=1.5), [answer for answer, _, _ in MIX], max_parallel=parallel)
    assert [(result.error_type, result.score) for result in batch.results] == [
        (error_type, score) for _, error_type, score in MIX
    ]
    assert (batch.total, batch.passed, batch.judged_count) == (len(MIX), 4, len(MIX))


@needs_sandbox
def test_each_output_may_have_an_environment_of_its_own(dg: DeepGym) -> None:
    environments = [adding(number) for number in (1, 2, 1, 3)]
    batch = dg.run_batch([*environments, BROKEN], [RIGHT] * 5)
    assert [result.passed for result in batch.results] == [True, False, True, False, False]
    assert [result.has_verdict for result in batch.results] == [True, True, True, True, False]
    assert [result.env_name for result in batch.results] == ["add-1", "add-2", "add-1", "add-3", "broken"]
    assert len({result.run_id for result in batch.results}) == 5
    assert batch.results[0].answer_sha256 == batch.results[1].answer_sha256
    assert batch.results[0].env_digest == environments[0].digest


@needs_sandbox
def test_what_run_raises_is_a_result_without_a_verdict_in_a_batch(dg: DeepGym) -> None:
    with pytest.raises(VerifierError):
        dg.run(BROKEN, RIGHT)
    batch = dg.run_batch(BROKEN, [RIGHT, WRONG])
    assert [result.error_type for result in batch.results] == ["verifier_error"] * 2
    assert batch.rewards == [None, None]
    assert (batch.no_verdict_count, batch.passed, batch.avg_score) == (2, 0, 0.0)


@needs_sandbox
def test_an_empty_batch_is_empty(dg: DeepGym) -> None:
    assert dg.run_batch(adding(1), []).results == ()
    assert list(dg.stream(adding(1), [])) == []


@needs_sandbox
def test_a_stream_yields_every_index_once(dg: DeepGym) -> None:
    answers = [answer for answer, _, _ in MIX]
    found = dict(dg.stream(adding(1, wall=1.5), answers))
    assert sorted(found) == list(range(len(MIX)))
    assert [found[index].score for index in range(len(MIX))] == [score for _, _, score in MIX]


@needs_sandbox
def test_a_stream_yields_what_is_finished_first_unless_order_is_wanted(dg: DeepGym) -> None:
    slow = "import time\ndef f(x):\n    time.sleep(1.5)\n    return x + 1"
    assert [index for index, _ in dg.stream(adding(1), [slow, RIGHT], max_parallel=2)] == [1, 0]
    assert [
        index for index, _ in dg.stream(adding(1), [SLOW, RIGHT, RIGHT], max_parallel=2, ordered=True)
    ] == [0, 1, 2]


@needs_sandbox
def test_a_stream_that_is_left_early_stops_the_rest_and_frees_its_slots(dg: DeepGym) -> None:
    long = "import time\ndef f(x): time.sleep(1000)"
    stream = dg.stream(adding(1, wall=900.0), [RIGHT, long, long, long], max_parallel=2)
    index, result = next(stream)
    assert (index, result.passed) == (0, True)
    stream.close()  # type: ignore[attr-defined]
    assert dg.run_batch(adding(1), [RIGHT] * 4, max_parallel=2).passed == 4


@needs_sandbox
def test_an_eval_takes_outputs_in_suite_order_or_by_name(dg: DeepGym) -> None:
    suite = Suite(name="sums", environments=(adding(1), adding(2)))
    by_order = dg.eval(suite, [RIGHT, RIGHT])
    by_name = dg.eval(suite, {"add-2": RIGHT, "add-1": RIGHT})
    for found in (by_order, by_name):
        assert found.env_names == ("add-1", "add-2")
        assert [result.passed for result in found.results] == [True, False]
        assert found.suite == "sums"


@pytest.mark.parametrize(
    "outputs", [[RIGHT], [RIGHT] * 3, {"add-1": RIGHT}, {"add-1": RIGHT, "add-2": RIGHT, "add-3": RIGHT}, {}]
)
def test_an_eval_refuses_outputs_that_dont_fit_its_suite(outputs: Any) -> None:
    suite = Suite(name="sums", environments=(adding(1), adding(2)))
    with pytest.raises(ValueError, match="sums"):
        DeepGym().eval(suite, outputs)


@pytest.mark.parametrize(
    ("env", "outputs", "error", "text"),
    [
        (adding(1), RIGHT, TypeError, "list of answers"),
        (adding(1), b"code", TypeError, "list of answers"),
        (adding(1), [RIGHT, None], TypeError, r"outputs\[1\]"),
        (adding(1), [b"code"], TypeError, r"outputs\[0\]"),
        ([adding(1)], [RIGHT, RIGHT], ValueError, "1 environments for 2 outputs"),
        ([adding(1), adding(2)], [RIGHT], ValueError, "2 environments for 1 outputs"),
        ([], [RIGHT], ValueError, "0 environments"),
        (5, [RIGHT], TypeError, "int"),
        ([5], [RIGHT], TypeError, "Environment or a name"),
        ("no-such-environment", [RIGHT], UnknownNameError, "no-such-environment"),
    ],
)
def test_arguments_that_dont_fit_are_refused_before_anything_runs(
    env: Any, outputs: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        DeepGym().run_batch(env, outputs)
    with pytest.raises(error, match=text):
        list(DeepGym().stream(env, outputs))


@pytest.mark.parametrize("parallel", [0, -1])
def test_at_least_one_run_at_a_time_must_be_allowed(parallel: int) -> None:
    with pytest.raises(ValueError, match="max_parallel"):
        DeepGym(max_parallel=parallel)
    with pytest.raises(ValueError, match="max_parallel"):
        DeepGym().run_batch(adding(1), [RIGHT], max_parallel=parallel)
    with pytest.raises(ValueError, match="slots"):
        DeepGym(slots=parallel)


@pytest.mark.parametrize("mode", ["docker", "modal", "e2b", "daytona", "nonsense"])
def test_an_unknown_mode_is_an_error_that_says_what_to_install(mode: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        DeepGym(mode)
    text = str(raised.value)
    assert mode in text
    if mode == "nonsense":
        assert "local" in text
    else:
        assert f"deepgym-{mode}" in text or f"deepgym[{mode}]" in text
        assert "1.0.0" in text


# Deadlines.


def test_a_deadline_that_cant_hold_one_run_and_its_repetition_is_refused() -> None:
    with pytest.raises(ValueError, match=r"deadline=15 s.*limits\.wall"):
        DeepGym().run_batch(adding(1, wall=10.0), [RIGHT], deadline=15.0)


@needs_sandbox
def test_a_deadline_that_holds_everything_changes_nothing(dg: DeepGym) -> None:
    assert dg.run_batch(adding(1, wall=10.0), [RIGHT] * 4, deadline=600.0).passed == 4


@needs_sandbox
def test_after_the_deadlines_last_start_no_run_starts_and_none_is_cut_off(dg: DeepGym) -> None:
    """Worst case 3.5 s a run, deadline 7 s: runs of 0.8 s one by one can start until 3.5 s have gone."""
    slow = "import time\ndef f(x):\n    time.sleep(0.8)\n    return x + 1"
    batch = dg.run_batch(adding(1, wall=1.5), [slow] * 8, max_parallel=1, deadline=7.0)
    outcomes = [result.error_type for result in batch.results]
    started = outcomes.index("deadline")
    assert 1 <= started < 8
    assert outcomes == [None] * started + ["deadline"] * (8 - started)
    assert [result.passed for result in batch.results] == [True] * started + [False] * (8 - started)
    assert batch.rewards[started:] == [None] * (8 - started)


@needs_sandbox
def test_a_looping_answer_cant_hide_behind_the_deadline(dg: DeepGym) -> None:
    batch = dg.run_batch(adding(1, wall=0.5), ["while True: pass"] * 2, deadline=60.0)
    assert [result.error_type for result in batch.results] == ["solution_timeout"] * 2


# Observers.


class Seen:
    def __init__(self) -> None:
        self.phases: dict[int, list[Phase]] = collections.defaultdict(list)
        self.results: dict[int, RunResult] = {}

    def on_phase(self, index: int, phase: Phase) -> None:
        self.phases[index].append(phase)

    def on_result(self, index: int, result: RunResult) -> None:
        assert index not in self.results
        self.results[index] = result


@needs_sandbox
def test_an_observer_sees_phases_in_order_and_each_result_once(dg: DeepGym) -> None:
    seen = Seen()
    batch = dg.run_batch([adding(1), adding(1), BROKEN], [RIGHT, WRONG, RIGHT], observers=[seen])
    assert [seen.results[index] for index in range(3)] == list(batch.results)
    for index in range(3):
        ranks = [phase.rank for phase in seen.phases[index]]
        assert ranks == sorted(ranks)
        assert seen.phases[index][:3] == [Phase.QUEUED, Phase.OPENED, Phase.PLACED]


class Rude:
    def on_phase(self, index: int, phase: Phase) -> None:
        raise RuntimeError("no phases please")

    def on_result(self, index: int, result: RunResult) -> None:
        raise RuntimeError("no results please")


@needs_sandbox
def test_an_observer_that_raises_is_logged_and_changes_nothing(
    dg: DeepGym, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    batch = dg.run_batch(adding(1), [RIGHT, WRONG], observers=[Rude(), seen])
    assert "please" in caplog.text
    assert "Rude" in caplog.text
    assert [result.passed for result in batch.results] == [True, False]
    assert len(seen.results) == 2


# How many at once.


class Crowd:
    """How many runs stand between their placing and their result at the most."""

    def __init__(self) -> None:
        self.now: set[int] = set()
        self.most = 0

    def on_phase(self, index: int, phase: Phase) -> None:
        if phase is Phase.PLACED:
            self.now.add(index)
            self.most = max(self.most, len(self.now))

    def on_result(self, index: int, result: RunResult) -> None:
        self.now.discard(index)


@pytest.fixture(scope="module")
def wide(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    with DeepGym(slots=4, max_parallel=3) as client:
        client.run_batch(adding(1), [SLOW] * 4, max_parallel=4)
        yield client


@needs_sandbox
@pytest.mark.parametrize(("asked", "most"), [(1, 1), (2, 2), (None, 3), (9, 4)])
def test_no_more_runs_go_on_at_once_than_are_allowed(wide: DeepGym, asked: int | None, most: int) -> None:
    crowd = Crowd()
    batch = wide.run_batch(adding(1), [SLOW] * 6, max_parallel=asked, observers=[crowd])
    assert batch.passed == 6
    assert crowd.most == most


@needs_sandbox
def test_the_slots_bound_all_callers_of_a_client_together(wide: DeepGym) -> None:
    """Each answer prints when it was inside; never more than four at once over three batches in threads."""
    inside = "import time\ndef f(x):\n    a = time.monotonic()\n    time.sleep(0.2)\n    print(a, time.monotonic())\n    return x + 1"
    found: list[RunResult] = []

    def work() -> None:
        found.extend(wide.run_batch(adding(1), [inside] * 5, max_parallel=4).results)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.passed for result in found] == [True] * 15
    moments: list[tuple[float, int]] = []
    for result in found:
        start, end = map(float, result.output.split())
        moments += [(start, 1), (end, -1)]
    count = most = 0
    for _, step in sorted(moments):
        count += step
        most = max(most, count)
    assert 2 <= most <= 4
