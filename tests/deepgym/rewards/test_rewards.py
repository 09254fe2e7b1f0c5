from __future__ import annotations

import asyncio
import os
import pickle
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from deepgym.models import BatchResult, CaseResult, RunResult
from deepgym.rewards import AsyncRewardFunction, RewardFunction


def judged(code: str) -> RunResult:
    """A stub's judgement: the code says what becomes of it."""
    code = code.strip()
    if code == "outage":
        return RunResult(score=0.0, error_type="provider_error", error="HTTP 503")
    if code == "loop":
        return RunResult(score=0.0, error_type="solution_timeout", cases=(case(0, True), case(1, False)))
    if code == "half":
        return RunResult(score=0.5, reward_components={"style": 0.25}, cases=(case(0, True), case(1, False)))
    return RunResult(score=1.0 if code == "right" else 0.0, passed=code == "right")


def case(index: int, passed: bool) -> CaseResult:
    return CaseResult(
        name=str(index), passed=passed, score=float(passed), outcome="passed" if passed else "wrong"
    )


class StubClient:
    """Has ``run_batch`` alone, so whatever else a reward function called would fail."""

    made: ClassVar[list[StubClient]] = []

    def __init__(self) -> None:
        self.calls: list[tuple[Any, list[str], dict[str, Any]]] = []
        self.closed = False
        self.pid = os.getpid()
        type(self).made.append(self)

    def run_batch(self, env: Any, outputs: Sequence[str], **options: Any) -> BatchResult:
        assert not self.closed
        assert self.pid == os.getpid()
        self.calls.append((env, list(outputs), options))
        return BatchResult(results=tuple(judged(code) for code in outputs))

    def close(self) -> None:
        self.closed = True


class AsyncStubClient:
    made: ClassVar[list[AsyncStubClient]] = []

    def __init__(self) -> None:
        self.sync = StubClient()
        type(self).made.append(self)

    async def run_batch(self, env: Any, outputs: Sequence[str], **options: Any) -> BatchResult:
        await asyncio.sleep(0)
        return self.sync.run_batch(env, outputs, **options)

    async def close(self) -> None:
        self.sync.close()


@pytest.fixture(autouse=True)
def stub_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubClient, "made", [])
    monkeypatch.setattr(AsyncStubClient, "made", [])
    stub = SimpleNamespace(DeepGym=StubClient, AsyncDeepGym=AsyncStubClient)
    monkeypatch.setitem(sys.modules, "deepgym.client", stub)  # type: ignore[arg-type]


COMPLETIONS = ["```\nright\n```", "wrong", "outage", "half", "loop", None, ""]


def codes(completions: Sequence[Any]) -> list[str]:
    with RewardFunction("e") as reward_fn:
        reward_fn([*completions])
        return [code.strip() for code in StubClient.made[-1].calls[-1][1]]


def test_each_completion_gets_its_reward_and_an_outage_none() -> None:
    assert RewardFunction("coin_change")(COMPLETIONS) == [1.0, 0.0, None, 0.5, 0.0, 0.0, 0.0]


def test_shaped_rewards_are_the_components_and_none_without_a_verdict() -> None:
    shaped = RewardFunction("e").shaped_rewards(["half", "outage", "wrong"])
    assert shaped == [{"style": 0.25}, None, {}]


def test_per_test_rewards_name_each_test_and_the_overall_score() -> None:
    per_test = RewardFunction("e").per_test_rewards(["half", "outage", "wrong"])
    assert per_test == [{"test_0": 1.0, "test_1": 0.0, "overall": 0.5}, None, {"overall": 0.0}]


def test_a_run_that_a_fault_ended_has_no_credit_in_any_test() -> None:
    assert RewardFunction("e").per_test_rewards(["loop"]) == [{"test_0": 0.0, "test_1": 0.0, "overall": 0.0}]


def test_results_are_the_full_ones_in_order() -> None:
    batch = RewardFunction("e").results(COMPLETIONS)
    assert batch.total == len(COMPLETIONS)
    assert batch.no_verdict_count == 1
    assert batch.results[2].error == "HTTP 503"


def test_no_completions_need_no_client() -> None:
    reward_fn = RewardFunction("e")
    assert reward_fn([]) == reward_fn.shaped_rewards([]) == reward_fn.per_test_rewards([]) == []
    assert reward_fn.results([]).total == 0
    assert StubClient.made == []


def test_nothing_and_blank_text_are_empty_answers() -> None:
    assert codes([None, "", "  ", []]) == ["", "", "", ""]


def test_code_is_taken_out_of_text_and_conversations() -> None:
    chat = [{"role": "assistant", "content": "So:\n```py\nb\n```"}]
    assert codes(["```\na\n```", chat, "c"]) == ["a", "b", "c"]


def test_extraction_can_be_turned_off_or_replaced() -> None:
    fenced = "```\nright\n```"
    assert RewardFunction("e", extract=False)([fenced, None]) == [0.0, 0.0]
    assert RewardFunction("e", extract=lambda completion: str(completion)[::-1])(["thgir"]) == [1.0]


def test_options_reach_the_client() -> None:
    observer = object()
    reward_fn = RewardFunction("e", max_parallel=3, seed=7, deadline=2.5, observers=[observer])
    reward_fn(["a"])
    assert StubClient.made[0].calls[0][2] == {
        "max_parallel": 3,
        "seed": 7,
        "deadline": 2.5,
        "observers": (observer,),
    }


def test_environments_may_be_one_or_one_for_each_completion() -> None:
    reward_fn = RewardFunction(["a", "b"])
    assert reward_fn(["right", "wrong"]) == [1.0, 0.0]
    reward_fn(["right"], env="c")
    reward_fn(["right"], env=["d"])
    assert [call[0] for call in StubClient.made[0].calls] == [["a", "b"], "c", ["d"]]


def test_a_path_is_loaded_as_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules,
        "deepgym.environments",
        SimpleNamespace(load_environment=lambda path: ("loaded", path)),  # type: ignore[arg-type]
    )
    RewardFunction(Path("tasks/mine"))(["right"])
    assert StubClient.made[0].calls[0][0] == ("loaded", Path("tasks/mine"))


def test_the_wrong_number_of_environments_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 environments for 3 completions"):
        RewardFunction(["a", "b"])(["x", "y", "z"])


def test_no_environment_at_all_is_an_error() -> None:
    with pytest.raises(TypeError, match="no environment"):
        RewardFunction()(["x"])


@pytest.mark.parametrize("wrong", ["text", b"bytes", 7, None, {"role": "assistant"}])
def test_completions_that_are_no_list_are_an_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="completions must be a list"):
        RewardFunction("e")(wrong)


@pytest.mark.parametrize("wrong", [7, b"x", ["text"], [{"role": "assistant", "content": 7}]])
def test_a_completion_of_a_wrong_type_is_named_by_its_index(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"completions\[1\]"):
        RewardFunction("e")(["x", wrong])


def test_a_conversation_without_extraction_is_named_by_its_index() -> None:
    with pytest.raises(TypeError, match=r"completions\[0\]: with extract=False"):
        RewardFunction("e", extract=False)([[{"role": "assistant", "content": "x"}]])


def test_an_extractor_that_returns_no_text_is_named_by_its_index() -> None:
    with pytest.raises(TypeError, match=r"completions\[0\]: extract returned None"):
        RewardFunction("e", extract=lambda _: None)(["x"])  # type: ignore[arg-type, return-value]


def test_its_own_client_is_opened_once_and_closed() -> None:
    with RewardFunction("e") as reward_fn:
        assert StubClient.made == []
        reward_fn(["x"])
        reward_fn(["x"])
    assert [client.closed for client in StubClient.made] == [True]
    reward_fn.close()
    assert reward_fn(["right"]) == [1.0]


def test_a_client_that_was_given_is_used_and_left_open() -> None:
    given: Any = StubClient()
    with RewardFunction("e", dg=given) as reward_fn:
        reward_fn(["x"])
    assert len(given.calls) == 1
    assert not given.closed


def test_threads_share_one_client() -> None:
    reward_fn = RewardFunction("e")
    threads = [threading.Thread(target=reward_fn, args=(["right"],)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not client.closed for client in StubClient.made) == 1


@pytest.mark.parametrize("kind", [RewardFunction, AsyncRewardFunction])
def test_it_pickles_without_its_client(kind: Any) -> None:
    reward_fn = kind("e", max_parallel=2, name="mine")
    reward_fn._own[os.getpid()] = threading.Lock()
    copy = pickle.loads(pickle.dumps(reward_fn))
    assert (copy.env, copy.max_parallel, copy.__name__, copy._own) == ("e", 2, "mine", {})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_client() -> None:
    reward_fn = RewardFunction("e")
    reward_fn(["x"])
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = reward_fn(["right"]) == [1.0]
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(StubClient.made) == 1


def test_its_name_is_stable() -> None:
    assert RewardFunction("e").__name__ == AsyncRewardFunction("e").__name__ == "deepgym_reward"
    assert repr(RewardFunction("e", name="tests")) == "<RewardFunction tests>"


def test_the_async_form_gives_the_same() -> None:
    async def main() -> None:
        sync = RewardFunction("e")
        async with AsyncRewardFunction("e") as reward_fn:
            first, second = await asyncio.gather(reward_fn(COMPLETIONS), reward_fn(COMPLETIONS))
            assert first == second == sync(COMPLETIONS)
            assert await reward_fn.shaped_rewards(COMPLETIONS) == sync.shaped_rewards(COMPLETIONS)
            assert await reward_fn.per_test_rewards(COMPLETIONS) == sync.per_test_rewards(COMPLETIONS)
            assert await reward_fn([]) == []
        assert [client.sync.closed for client in AsyncStubClient.made] == [True]
        await reward_fn.close()

    asyncio.run(main())


def test_the_async_form_leaves_a_given_client_open() -> None:
    async def main() -> None:
        given: Any = AsyncStubClient()
        async with AsyncRewardFunction("e", dg=given) as reward_fn:
            assert await reward_fn(["right"]) == [1.0]
        assert not given.sync.closed

    asyncio.run(main())
