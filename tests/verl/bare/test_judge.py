"""One judge for a process and its options: whatever happens to its client, each sample gets a result."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import load_environment
from deepgym.exceptions import NoVerdictError, ProviderError
from deepgym.integrations.judging import least_deadline
from deepgym.integrations.labels import UnknownLabelError
from deepgym.models import RunResult
from deepgym.providers.base import Job, Sandbox, Spec
from deepgym.testing.fakes import Behaviour, FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG
from deepgym_verl import judge as judge_module
from deepgym_verl.judge import Judge, judge_for, label_of
from deepgym_verl.options import Options, OptionsError

EPISODE = "fix_the_program"


def options(**more: Any) -> Options:
    return Options.read({"env": ADD, **more})


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


class Failing(FakeProvider):
    """Raises what it is told to where a sandbox is opened."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(SCRIPT)
        self.error = error

    async def open(self, spec: Spec) -> Sandbox:
        raise self.error


# --- what says which environment -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra_info", "truth", "source", "label"),
    [
        ({"env": "two_sum"}, None, None, "two_sum"),
        ({"env_id": "two_sum"}, "x", "deepgym/y", "two_sum"),
        ({"environment": "two_sum", "index": 3}, None, "gsm8k", "two_sum"),
        ({"task_id": "HumanEval/0"}, None, None, "HumanEval/0"),
        ({"env": "a", "task_id": "b"}, None, None, "a"),
        ({"env": 3, "task_id": "b"}, None, None, "b"),
        ({"env": None}, "two_sum", "deepgym/easy", "two_sum"),
        ({}, "two_sum", "deepgym/easy", "two_sum"),
        (None, "two_sum", "deepgym/easy", "two_sum"),
        (None, "", "deepgym/two_sum", "two_sum"),
        (None, None, "deepgym/humaneval/3", "humaneval/3"),
        (None, {"a": 1}, "deepgym/two_sum", "two_sum"),
        ("env", "two_sum", "openai/gsm8k", None),
        (["env"], "two_sum", None, None),
        (None, "two_sum", 3, None),
        (None, None, None, None),
    ],
)
def test_a_row_names_its_environment(extra_info: Any, truth: Any, source: Any, label: Any) -> None:
    assert label_of(extra_info, truth, source) == label


def test_a_ground_truth_of_another_data_source_is_never_taken_for_a_name() -> None:
    labels = Options().labels()
    with pytest.raises(UnknownLabelError):
        labels.environment(label_of({}, "two_sum", "openai/gsm8k"))


# --- grading -----------------------------------------------------------------------------------------------


def test_all_samples_of_a_worker_are_graded_at_once(kit: SimpleNamespace) -> None:
    provider = kit.Waiting()
    grader = Judge(options(max_parallel=64), kit.client(provider))

    async def main() -> list[float | None]:
        going = [asyncio.ensure_future(grader.result(None, fenced(GOOD))) for _ in range(24)]
        while provider.asked < 24:
            await asyncio.sleep(0)
        provider.let()
        return [result.reward for result in await asyncio.gather(*going)]

    assert asyncio.run(main()) == [1.0] * 24
    assert provider.busiest <= 24


def test_no_more_runs_than_were_asked_for_go_on_at_once(kit: SimpleNamespace) -> None:
    provider = FakeProvider(SCRIPT)
    grader = Judge(options(max_parallel=3), kit.client(provider))

    async def main() -> list[float | None]:
        found = await asyncio.gather(*(grader.result(None, answer) for answer in [*ANSWERS] * 20))
        return [result.reward for result in found]

    assert asyncio.run(main()) == [*ANSWERS.values()] * 20
    assert provider.busiest == 3
    assert provider.opened == provider.closed


def test_event_loops_and_threads_may_share_a_judge(kit: SimpleNamespace) -> None:
    grader = Judge(options(max_parallel=2), kit.client(FakeProvider(SCRIPT)))
    found: dict[int, float | None] = {}

    def work(number: int) -> None:
        async def one() -> float | None:
            return (await grader.result(None, [GOOD, HALF, WRONG][number % 3])).reward

        found[number] = asyncio.run(one())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [1.0, 0.5, 0.0][number % 3] for number in range(12)}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_no_verdict_or_the_policy_s_zero_as_the_contract_says(
    fault: Fault, kit: SimpleNamespace, masked: Callable[[], int]
) -> None:
    grader = Judge(options(), kit.client(FaultyProvider(FakeProvider(SCRIPT), fault)))
    result = asyncio.run(grader.result(None, GOOD))
    assert result.error_type == fault.error_type
    assert result.score == 0.0
    assert masked() == (not result.has_verdict)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("no"), OSError(24, "Too many open files"), MemoryError(), KeyError("x"), AssertionError()],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_provider_raises_is_a_result(error: Exception, kit: SimpleNamespace) -> None:
    grader = Judge(options(), kit.client(Failing(error)))
    result = asyncio.run(grader.result(None, GOOD))
    assert not result.has_verdict
    assert result.env_name == ADD.name


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(24, "Too many open files")]
)
def test_a_client_that_cannot_be_reached_is_no_verdict(
    error: Exception, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dg = kit.client(FakeProvider(SCRIPT))
    grader = Judge(options(), dg)

    def fail(make: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(dg, "submit", fail)
        result = asyncio.run(grader.result(None, GOOD))
    assert (result.has_verdict, result.error_type) == (False, "sandbox_error")
    assert asyncio.run(grader.result(None, GOOD)).reward == 1.0


def test_a_client_that_is_closed_under_a_run_is_no_verdict_and_works_again(
    kit: SimpleNamespace, masked: Callable[[], int]
) -> None:
    provider = kit.Waiting()
    dg = kit.client(provider, max_parallel=1)
    grader = Judge(options(max_parallel=1), dg)

    async def main() -> list[RunResult]:
        going = [asyncio.ensure_future(grader.result(None, GOOD)) for _ in range(4)]
        await asyncio.to_thread(provider.there.wait)
        await asyncio.to_thread(dg.close)
        return list(await asyncio.gather(*going))

    results = asyncio.run(main())
    assert [result.has_verdict for result in results] == [False] * 4
    assert {result.error_type for result in results} <= {"sandbox_error", "cancelled"}
    assert masked() == 4
    provider.let()
    for _ in range(3):
        assert asyncio.run(grader.result(None, GOOD)).reward == 1.0


def test_a_run_that_nobody_waits_for_is_stopped(kit: SimpleNamespace) -> None:
    provider = kit.Waiting()
    grader = Judge(options(), kit.client(provider))

    async def main() -> None:
        going = asyncio.ensure_future(grader.result(None, GOOD))
        await asyncio.to_thread(provider.there.wait)
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        assert going.cancelled()
        assert await asyncio.to_thread(provider.stopped.wait, 30)

    asyncio.run(main())


def test_the_worker_s_loop_goes_on_while_the_client_s_is_blocked(kit: SimpleNamespace) -> None:
    provider = kit.Waiting(blocking=True)
    grader = Judge(options(), kit.client(provider))

    async def main() -> int:
        going = asyncio.ensure_future(grader.result(None, GOOD))
        await asyncio.to_thread(provider.there.wait)
        turns = 0
        for _ in range(1000):
            await asyncio.sleep(0)
            turns += 1
        assert not going.done()
        provider.let()
        assert (await going).reward == 1.0
        return turns

    assert asyncio.run(main()) == 1000


def test_a_client_whose_loop_hangs_is_no_verdict(
    kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_BEAT", 0.05)
    provider = kit.Waiting(blocking=True)
    grader = Judge(options(), kit.client(provider))

    async def main() -> list[RunResult]:
        return list(await asyncio.gather(*(grader.result(None, GOOD) for _ in range(3))))

    results = asyncio.run(main())
    assert [result.has_verdict for result in results] == [False] * 3
    assert "event loop hasn't answered" in str(results[0].error)
    provider.let()
    monkeypatch.setattr(judge_module, "_BEAT", 60.0)
    assert asyncio.run(grader.result(None, GOOD)).reward == 1.0


def test_a_client_that_is_only_slow_is_waited_for(
    kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_BEAT", 0.05)
    provider = kit.Waiting()
    grader = Judge(options(), kit.client(provider))
    beats = 0
    real = Judge._beat

    async def beat(self: Judge, work: Any) -> None:
        nonlocal beats
        await real(self, work)
        beats += 1
        if beats == 3:
            provider.let()

    monkeypatch.setattr(Judge, "_beat", beat)
    assert asyncio.run(grader.result(None, GOOD)).reward == 1.0
    assert beats >= 3


# --- time --------------------------------------------------------------------------------------------------


class Clock:
    """Time that passes where a test says so, for whatever the judge asks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = time.monotonic
        patch.setattr(time, "monotonic", lambda: real() + self.ahead)


def test_a_deadline_stops_admission_and_never_a_run_in_play(
    kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    class Late(kit.Waiting):  # type: ignore[misc, name-defined]
        """Time passes while an answer runs."""

        def behaviour(self, job: Job) -> Behaviour:
            clock.ahead += 25.0
            return super().behaviour(job)  # type: ignore[no-any-return]

    provider = Late()
    deadline = least_deadline([ADD]) + 20.0
    grader = Judge(options(max_parallel=1, deadline=deadline), kit.client(provider))

    async def main() -> list[RunResult]:
        going = [asyncio.ensure_future(grader.result(None, answer)) for answer in (GOOD, GOOD, HALF)]
        await asyncio.to_thread(provider.there.wait)  # all of them have been asked for by then
        provider.let()
        return list(await asyncio.gather(*going))

    results = asyncio.run(main())
    assert [result.reward for result in results] == [1.0, None, None]
    assert [result.error_type for result in results[1:]] == ["deadline"] * 2
    assert provider.opened == 1


# --- what can't be graded ------------------------------------------------------------------------------------


def test_a_row_that_names_nothing_raises_and_counts_for_nothing(
    kit: SimpleNamespace, masked: Callable[[], int]
) -> None:
    grader = Judge(Options(), kit.client(FakeProvider(SCRIPT)))
    for label in (None, "no_such_thing", "../two_sum", "\ud800"):
        with pytest.raises(UnknownLabelError):
            asyncio.run(grader.result(label, GOOD))
    assert masked() == 0


def test_a_row_for_an_agent_is_told_the_agent_s_loop(kit: SimpleNamespace) -> None:
    grader = Judge(Options(), kit.client(FakeProvider(SCRIPT)))
    with pytest.raises(OptionsError, match=r"'fix_the_program' is for an agent.*deepgym_agent"):
        asyncio.run(grader.result(EPISODE, GOOD))
    assert grader.episode_env(EPISODE).name == EPISODE


def test_a_row_for_one_answer_is_told_the_single_turn_loop(kit: SimpleNamespace) -> None:
    grader = Judge(Options(), kit.client(FakeProvider(SCRIPT)))
    with pytest.raises(OptionsError, match="give its rows the agent loop deepgym_single_turn"):
        grader.episode_env("two_sum")
    with pytest.raises(UnknownLabelError):
        grader.episode_env("no_such_thing")


def test_an_environment_that_a_row_names_must_fit_the_deadline_too(kit: SimpleNamespace) -> None:
    grader = Judge(Options(deadline=1.0), kit.client(FakeProvider(SCRIPT)))
    with pytest.raises(OptionsError, match=r"deadline=1: one run of 'two_sum'"):
        asyncio.run(grader.result("two_sum", GOOD))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "\x00",
        "\ud800",
        "```python\n",
        "```" * 5000,
        "<think>" * 5000,
        "> " * 20_000 + "```",
        "x" * 200_000,
    ],
    ids=["empty", "blank", "nul", "surrogate", "open fence", "fences", "thoughts", "nested", "long"],
)
def test_no_text_of_a_policy_s_raises(text: str, kit: SimpleNamespace) -> None:
    grader = Judge(options(), kit.client(FakeProvider(SCRIPT)))
    assert asyncio.run(grader.result(None, text)).reward == 0.0


def test_a_long_text_is_read_elsewhere_than_in_the_worker_s_loop(
    kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[int] = []

    def extract(text: str) -> str:
        where.append(threading.get_ident())
        return GOOD

    monkeypatch.setattr(judge_module, "extract_code", extract)
    grader = Judge(options(), kit.client(FakeProvider(SCRIPT)))
    assert asyncio.run(grader.result(None, "> - > - a\n" * 50_000)).reward == 1.0
    assert threading.get_ident() not in where


# --- one for a process ---------------------------------------------------------------------------------------


def test_equal_options_share_a_judge_and_others_have_their_own() -> None:
    one = judge_for(options())
    assert judge_for(options(deadline=3600)) is one
    assert judge_for(options(max_parallel=3)) is not one
    assert judge_for(Options.read({"env": load_environment("two_sum")})) is not one


def test_all_threads_get_the_same_judge() -> None:
    ready, found = threading.Barrier(8), []

    def work() -> None:
        ready.wait()
        found.append(judge_for(options()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_wrong_options_make_no_judge_and_block_no_other() -> None:
    for _ in range(2):
        with pytest.raises(OptionsError):
            judge_for(Options.read({"env": "no_such_thing"}))
        with pytest.raises(OptionsError):
            judge_for(Options.read({"mode": "no_such_thing"}))
    assert judge_for(options()).options == options()


def test_a_client_that_was_given_stays_open_when_the_judge_closes(kit: SimpleNamespace) -> None:
    closed: list[str] = []

    class Noted(FakeProvider):
        async def close(self) -> None:
            closed.append("closed")

    dg = kit.client(Noted(SCRIPT))
    grader = Judge(options(), dg)
    assert asyncio.run(grader.result(None, GOOD)).reward == 1.0
    grader.close()
    assert closed == []
    dg.close()
    assert closed == ["closed"]


_FORKED = """
import asyncio, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from deepgym import DeepGym
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, GOOD, HALF, SCRIPT
from deepgym_verl import judge
from deepgym_verl.options import Options
from deepgym_verl.reward_fn import make_verl_reward_fn

Options.client = lambda self: DeepGym(provider=FakeProvider(SCRIPT), max_parallel=2)
options = Options.read({"env": ADD})

def grade(answer):
    async def one():
        return (await judge.judge_for(options).result(None, answer)).reward
    return asyncio.run(one())

mine = judge.judge_for(options)
own = make_verl_reward_fn(ADD, dg=DeepGym(provider=FakeProvider(SCRIPT), max_parallel=1))
assert grade(GOOD) == 1.0
assert own([GOOD]) == [1.0]
held, forked = threading.Event(), threading.Event()

def hold():
    with judge._lock:
        held.set()
        forked.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    code = 1
    try:
        assert judge.judge_for(options) is not mine
        assert grade(HALF) == 0.5
        assert own([HALF, GOOD]) == [0.5, 1.0]
        code = 0
    finally:
        os._exit(code)
forked.set()
assert os.waitpid(child, 0)[1] == 0
assert judge.judge_for(options) is mine
assert grade(GOOD) == 1.0
"""


def test_a_forked_child_has_judges_of_its_own() -> None:
    found = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


def test_a_process_that_ends_closes_its_judges() -> None:
    program = (
        "import asyncio\n"
        "from deepgym import DeepGym\n"
        "from deepgym.testing.fakes import FakeProvider\n"
        "from deepgym.testing.laws import ADD, GOOD, SCRIPT\n"
        "from deepgym_verl.judge import judge_for\n"
        "from deepgym_verl.options import Options\n"
        "class Noted(FakeProvider):\n"
        "    async def close(self): print('closed', flush=True)\n"
        "Options.client = lambda self: DeepGym(provider=Noted(SCRIPT))\n"
        "print(asyncio.run(judge_for(Options((ADD,))).result(None, GOOD)).reward)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (found.stdout, found.stderr) == ("1.0\nclosed\n", "")


# --- the exception ---------------------------------------------------------------------------------------------


def _survives(error: NoVerdictError, dumps: Callable[[Any], bytes]) -> None:
    for again in (pickle.loads(dumps(error)), pickle.loads(dumps(pickle.loads(dumps(error))))):
        assert type(again) is NoVerdictError
        assert str(again) == str(error)
        assert again.args == error.args
        assert again.result == error.result
        assert isinstance(again, Exception)
        assert not isinstance(again, TimeoutError)


@pytest.mark.parametrize(
    "result", [None, RunResult(score=0.0, error_type="provider_error", error="HTTP 503")]
)
def test_the_error_survives_pickling(result: RunResult | None) -> None:
    _survives(NoVerdictError("no verdict", result), pickle.dumps)
    _survives(NoVerdictError("no verdict", result), lambda error: pickle.dumps(error, 2))


@pytest.mark.parametrize(
    "result", [None, RunResult(score=0.0, error_type="provider_error", error="HTTP 503")]
)
def test_the_error_survives_cloudpickle_which_ray_uses(result: RunResult | None) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    _survives(NoVerdictError("no verdict", result), cloudpickle.dumps)


def test_the_error_of_a_real_run_survives_with_its_cause(kit: SimpleNamespace) -> None:
    from deepgym_verl.reward import no_verdict

    grader = Judge(options(), kit.client(Failing(ProviderError("HTTP 503", "fake", 503))))
    result = asyncio.run(grader.result(None, GOOD))
    error = no_verdict(result, "do this")
    assert str(error).startswith("no verdict (provider_error: ")
    assert str(error).endswith(". do this")
    _survives(error, pickle.dumps)
