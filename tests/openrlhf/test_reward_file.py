"""The Python file in OpenRLHF's own executor, called in its threads."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import deepgym_openrlhf
from deepgym import AsyncDeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment
from deepgym.integrations.labels import Labels
from deepgym.testing import Fault, FaultyProvider
from deepgym.testing.fakes import FakeProvider
from deepgym_openrlhf import reward_file
from deepgym_openrlhf.failure import DROPPED
from deepgym_openrlhf.settings import Settings, SettingsError

FILE = Path(deepgym_openrlhf.__file__).with_name("reward_file.py")
PROMPT = "<|user|>Double it.<|assistant|>"
LOGS = ["deepgym_verdict", "no_verdict", "deepgym_score", "deepgym_pass", "deepgym_latency_s"]
ENV = Environment(
    name="double",
    task="Write `double(x)`.",
    verify=Cases(function="double", cases=tuple(Case(args=(n,), expected=2 * n) for n in (1, 2, 3, 4))),
)
RIGHT, HALF, LOST = "right = 1", "half = 1", "lost = 1"
SCRIPT = {RIGHT: lambda x: 2 * x, HALF: lambda x: 2 * x if x < 3 else 0, LOST: lambda x: 2 * x}


def judge(failure: Any, times: int | None = None) -> reward_file.Judge:
    fault = Fault("provider", Phase.OPENED)
    dg = AsyncDeepGym(provider=FaultyProvider(FakeProvider(SCRIPT), fault, answers=[LOST], times=times))
    return reward_file.Judge(Settings(labels=Labels(ENV), failure=failure), dg)


@pytest.fixture
def asked() -> Iterator[Any]:
    """Ask a judge for the answers' rewards; all of them are closed in the end."""
    judges: list[reward_file.Judge] = []

    def ask(found: reward_file.Judge, *answers: str, prompt: str = PROMPT) -> dict[str, Any]:
        judges.append(found)
        count = len(answers)
        return found.answer(
            [prompt + answer + "<|im_end|>" for answer in answers], [prompt] * count, [None] * count
        )

    yield ask
    for one in set(judges):
        if not one._loop.is_closed():
            one.close()


def test_the_answer_is_the_endpoint_s(asked: Any) -> None:
    found = asked(judge(0.0), RIGHT, HALF)
    assert (found["rewards"], found["scores"]) == ([1.0, 0.5], [1.0, 0.5])
    assert list(found["extra_logs"]) == LOGS
    assert found["extra_logs"]["no_verdict"] == [0.0, 0.0]
    assert found["extra_logs"]["deepgym_pass"] == [1.0, 0.0]
    assert asked(judge(0.0)) == {"rewards": [], "scores": []}


@pytest.mark.parametrize(
    ("failure", "reward", "score"),
    [(-1.0, -1.0, -1.0), ("group_mean", 0.75, 0.75), ("drop_group", 0.75, DROPPED)],
)
def test_a_sample_without_a_verdict_gets_the_failure_score(
    asked: Any, failure: Any, reward: float, score: float
) -> None:
    found = asked(judge(failure), RIGHT, LOST, HALF)
    assert (found["rewards"], found["scores"]) == ([1.0, reward, 0.5], [1.0, score, 0.5])
    assert found["extra_logs"]["no_verdict"] == [0.0, 1.0, 0.0]


def test_not_a_number_comes_by_its_unsafe_name_alone(asked: Any) -> None:
    (reward,) = asked(judge("unsafe_nan"), LOST)["rewards"]
    assert math.isnan(reward)


def test_a_run_that_the_provider_failed_is_graded_once_more(asked: Any) -> None:
    assert asked(judge(0.0, times=3), LOST)["rewards"] == [1.0]
    assert asked(judge(0.0, times=6), LOST)["extra_logs"]["no_verdict"] == [1.0]


def test_threads_with_one_sample_each_find_their_siblings(asked: Any) -> None:
    one = judge("group_mean")
    with ThreadPoolExecutor(16) as threads:
        judged = list(
            threads.map(lambda n: asked(one, RIGHT if n % 2 else HALF, prompt=f"{n // 8}?"), range(64))
        )
        lost = list(threads.map(lambda n: asked(one, LOST, prompt=f"{n}?"), range(8)))
    assert [found["rewards"] for found in judged] == [[0.5], [1.0]] * 32
    assert [found["rewards"] for found in lost] == [[0.75]] * 8


def test_what_no_trainer_asks_is_answered_too(asked: Any, caplog: pytest.LogCaptureFixture) -> None:
    one = judge("group_mean")
    asked(one)
    found = one.answer([PROMPT + RIGHT, "x"], [PROMPT], [None, None])
    assert (found["rewards"], found["extra_logs"]["no_verdict"]) == ([0.5, 0.5], [1.0, 1.0])
    assert list(found["extra_logs"]) == LOGS
    assert "no verdict for 2 samples" in caplog.text
    assert one.answer([PROMPT + RIGHT], [None], [object()])["extra_logs"]["no_verdict"] == [0.0]  # type: ignore[list-item]


def test_no_text_is_beyond_an_answer(asked: Any) -> None:
    one = judge("group_mean")
    for text in ("", "\x00", "\ud800", "\ufffd" * 9, "```python\n" * 2000, "x" * 300_000):
        found = asked(one, text)
        assert (found["rewards"], found["extra_logs"]["no_verdict"]) == ([0.0], [0.0])


@pytest.mark.parametrize(
    ("failure", "reward", "score"),
    [(-1.0, -1.0, -1.0), ("group_mean", 0.5, 0.5), ("drop_group", 0.5, DROPPED)],
)
def test_a_judge_that_is_broken_answers_what_has_no_verdict(
    asked: Any, failure: Any, reward: float, score: float
) -> None:
    one = judge(failure)
    asked(one)
    one.close()
    found = asked(one, RIGHT)
    assert (found["rewards"], found["scores"]) == ([reward], [score])
    assert found["extra_logs"]["no_verdict"] == [1.0]


def test_what_a_sample_without_a_verdict_gets_must_be_said() -> None:
    with pytest.raises(ValueError, match="must be said"):
        reward_file.Judge(Settings(labels=Labels(ENV)))


def load(name: str = "reward_func") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process in which nothing was set and nothing judged yet."""
    for name in ("ENV", "FAILURE", "SECONDS"):
        monkeypatch.delenv(f"DEEPGYM_OPENRLHF_{name}", raising=False)
    judges: dict[int, reward_file.Judge] = {}
    monkeypatch.setattr(reward_file, "_judges", judges)
    yield monkeypatch
    for one in judges.values():
        one.close()


def test_settings_that_are_wrong_are_refused_where_the_trainer_loads_the_file(
    fresh: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match=r"^DEEPGYM_OPENRLHF_FAILURE isn't set"):
        load()
    fresh.setenv("DEEPGYM_OPENRLHF_FAILURE", "group_mean")
    with pytest.raises(SettingsError, match=r"^DEEPGYM_OPENRLHF_ENV isn't set"):
        load()
    fresh.setenv("DEEPGYM_OPENRLHF_ENV", "coin_change")
    fresh.setenv("DEEPGYM_OPENRLHF_SECONDS", "5")
    with pytest.raises(SettingsError, match=r"^DEEPGYM_OPENRLHF_SECONDS=5 is too short"):
        load()
    fresh.delenv("DEEPGYM_OPENRLHF_SECONDS")
    load()
    # Whoever else imports it needs none of it.
    fresh.delenv("DEEPGYM_OPENRLHF_ENV")
    load("something")


def test_copies_of_the_file_share_one_judge(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("DEEPGYM_OPENRLHF_ENV", "coin_change")
    fresh.setenv("DEEPGYM_OPENRLHF_FAILURE", "0")
    first, second = load(), load()
    assert first.reward_func.__globals__ is not second.reward_func.__globals__
    assert len(reward_file._judges) == 1
    assert sum(thread.name == "deepgym-rewards" for thread in threading.enumerate()) == 1
    assert first.reward_func([], [], []) == second.reward_func([], [], []) == {"rewards": [], "scores": []}


@pytest.mark.local_sandbox
def test_openrlhf_s_own_executor_gets_real_rewards_from_it(fresh: pytest.MonkeyPatch) -> None:
    package = importlib.util.find_spec("openrlhf")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("openrlhf isn't installed")
    if importlib.util.find_spec("torch") is None and "openrlhf.utils" not in sys.modules:
        bare = ModuleType("openrlhf.utils")
        bare.__path__ = [str(Path(package.submodule_search_locations[0]) / "utils")]
        sys.modules["openrlhf.utils"] = bare
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from openrlhf.utils.agent import SingleTurnAgentExecutor

    class Tokenizer:
        def __call__(self, text: str, **_: Any) -> dict[str, Any]:
            return {"input_ids": [SimpleNamespace(tolist=lambda: [ord(char) for char in text])]}

        def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
            return "".join(map(chr, tokens))

    class Engine:
        def __init__(self, answers: list[str]) -> None:
            self.answers = answers

        async def generate(self, tokens: list[int], params: Any, **_: Any) -> SimpleNamespace:
            ids = [ord(char) for char in self.answers.pop(0)]
            output = SimpleNamespace(token_ids=ids, text="", finish_reason="stop", logprobs=None)
            return SimpleNamespace(outputs=[output])

    fresh.setenv("DEEPGYM_OPENRLHF_ENV", "labels")
    fresh.setenv("DEEPGYM_OPENRLHF_FAILURE", "-1")
    from deepgym import load_environment

    right = f"```python\n{load_environment('coin_change').reference}\n```<|im_end|>"
    engine = Engine([right, "nothing", right])
    params = SimpleNamespace(max_tokens=64, logprobs=None)

    async def run() -> list[dict[str, Any]]:
        executor = SingleTurnAgentExecutor([str(FILE)])
        labels: list[object] = ["coin_change", {"env": "coin_change"}, "nobody knows"]
        calls = (executor.execute(PROMPT, label, params, 4096, Tokenizer(), engine) for label in labels)
        return list(await asyncio.gather(*calls))

    outputs = asyncio.run(run())
    assert [output["reward"] for output in outputs] == [[1.0], [0.0], [-1.0]]
    assert [output["scores"] for output in outputs] == [[1.0], [0.0], [-1.0]]
    assert [output["extra_logs"]["no_verdict"] for output in outputs] == [[0.0], [0.0], [1.0]]
