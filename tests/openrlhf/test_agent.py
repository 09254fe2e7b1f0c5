"""The agent file in OpenRLHF's own executor: what a sample without a verdict, and its siblings, come to."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import deepgym_openrlhf
from deepgym import AsyncDeepGym, load_environment
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym.testing.fakes import FakeProvider
from deepgym_openrlhf.failure import DROPPED
from deepgym_openrlhf.settings import SettingsError

FILE = Path(deepgym_openrlhf.__file__).with_name("agent.py")
PROMPT = "<|user|>Double it.<|assistant|>"
LOGS = ["deepgym_verdict", "no_verdict", "deepgym_score", "deepgym_pass", "deepgym_latency_s"]
ENV = Environment(
    name="double",
    task="Write `double(x)`.",
    verify=Cases(function="double", cases=tuple(Case(args=(n,), expected=2 * n) for n in (1, 2, 3, 4))),
)
RIGHT, HALF, WRONG, LOST = "right = 1", "half = 1", "wrong = 1", "lost = 1"
SCRIPT = {
    RIGHT: lambda x: 2 * x,
    HALF: lambda x: 2 * x if x < 3 else 0,
    WRONG: lambda x: -1,
    LOST: lambda x: 2 * x,
}


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    """The module as OpenRLHF loads it; where PyTorch is missing, with OpenRLHF's executor and nothing else of it."""
    package = importlib.util.find_spec("openrlhf")
    if package is None or package.submodule_search_locations is None:
        pytest.skip("openrlhf isn't installed")
    if importlib.util.find_spec("torch") is None and "openrlhf.utils" not in sys.modules:
        bare = ModuleType("openrlhf.utils")
        bare.__path__ = [str(Path(package.submodule_search_locations[0]) / "utils")]
        sys.modules["openrlhf.utils"] = bare
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import openrlhf.utils.agent as theirs

    spec = importlib.util.spec_from_file_location("agent_module", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert issubclass(module.AgentExecutor, theirs.AgentExecutorBase)
    return module


class Tokenizer:
    """A token for each character."""

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": [SimpleNamespace(tolist=lambda: [ord(char) for char in text])]}

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, tokens))


class Engine:
    """Answers in turn; each comes when ``ready`` says so."""

    def __init__(self, answers: Sequence[str], finish: str = "stop") -> None:
        self.answers = list(answers)
        self.finish = finish
        self.ready: dict[str, asyncio.Event] = {}

    async def generate(self, tokens: list[int], params: Any, **_: Any) -> SimpleNamespace:
        answer = self.answers.pop(0)
        await asyncio.sleep(0)
        if answer in self.ready:
            await self.ready[answer].wait()
        ids = [ord(char) for char in answer]
        output = SimpleNamespace(token_ids=ids, text=answer, finish_reason=self.finish, logprobs=None)
        return SimpleNamespace(outputs=[output])


async def group(
    executor: Any,
    answers: Sequence[str],
    prompt: str = PROMPT,
    engine: Engine | None = None,
    label: object = None,
) -> list[dict[str, Any]]:
    """What OpenRLHF makes of one prompt: its samples are begun together, with one object of parameters."""
    given: dict[str, Any] = {
        "prompt": prompt,
        "label": label,
        "sampling_params": SimpleNamespace(max_tokens=64, logprobs=None),
        "max_length": 256,
        "hf_tokenizer": Tokenizer(),
        "llm_engine": Engine(answers) if engine is None else engine,
    }
    if "images" in inspect.signature(type(executor).__mro__[1].execute).parameters:
        given["images"] = None
    return list(await asyncio.gather(*(executor.execute(**given) for _ in answers)))


def fake(times: int | None = None, lost: Sequence[str] = (LOST,)) -> AsyncDeepGym:
    """A client that can't judge what is ``lost``, the first ``times`` times of each."""
    inner = FakeProvider(SCRIPT)
    return AsyncDeepGym(
        provider=FaultyProvider(inner, Fault("provider", Phase.OPENED), answers=lost, times=times)
    )


def summed(output: Mapping[str, Any]) -> tuple[float, float, float]:
    return output["reward"], output["scores"], output["extra_logs"]["no_verdict"]


BEGIN = len(PROMPT)


def test_judged_samples_get_their_score_and_are_trained_on_whole(agent: ModuleType) -> None:
    outputs = asyncio.run(group(agent.AgentExecutor(ENV, fake()), [RIGHT, HALF, WRONG]))
    assert [summed(output) for output in outputs] == [(1.0, 1.0, 0.0), (0.5, 0.5, 0.0), (0.0, 0.0, 0.0)]
    for output, answer in zip(outputs, [RIGHT, HALF, WRONG], strict=True):
        assert output["action_ranges"] == [(BEGIN, BEGIN + len(answer))]
        assert list(output["extra_logs"]) == LOGS
        assert all(type(number) is float for number in output["extra_logs"].values())
        assert output["extra_logs"]["deepgym_score"] == output["reward"]
    assert [output["extra_logs"]["deepgym_pass"] for output in outputs] == [1.0, 0.0, 0.0]


def test_a_sample_without_a_verdict_gets_its_judged_siblings_mean_and_one_token(agent: ModuleType) -> None:
    outputs = asyncio.run(group(agent.AgentExecutor(ENV, fake()), [RIGHT, LOST, HALF, LOST, WRONG]))
    assert [summed(outputs[index]) for index in (1, 3)] == [(0.5, 0.5, 1.0)] * 2
    assert [outputs[index]["action_ranges"] for index in (1, 3)] == [[(BEGIN, BEGIN + 1)]] * 2
    assert [outputs[index]["reward"] for index in (0, 2, 4)] == [1.0, 0.5, 0.0]
    assert list(outputs[1]["extra_logs"]) == LOGS
    assert outputs[1]["extra_logs"]["deepgym_score"] == 0.0
    # All of what was generated stays in the sequence.
    assert len(outputs[1]["observation_tokens"]) == BEGIN + len(LOST)


@pytest.mark.parametrize("first", [LOST, RIGHT])
def test_siblings_that_end_later_or_earlier_count_alike(agent: ModuleType, first: str) -> None:
    async def run() -> list[dict[str, Any]]:
        executor = agent.AgentExecutor(ENV, fake())
        engine = Engine([LOST, RIGHT, WRONG, RIGHT])
        last = RIGHT if first == LOST else LOST
        engine.ready = {last: asyncio.Event()}
        running = asyncio.ensure_future(group(executor, engine.answers[:], engine=engine))
        while not any(group.judged or group.open < 4 for group in executor._groups._open.values()):
            await asyncio.sleep(0)
        engine.ready[last].set()
        return await running

    outputs = asyncio.run(run())
    assert outputs[0]["reward"] == pytest.approx(2 / 3)
    assert [output["reward"] for output in outputs[1:]] == [1.0, 0.0, 1.0]


def test_a_run_that_the_provider_failed_is_graded_once_more(agent: ModuleType) -> None:
    dg = fake(times=3)  # the client itself tries three times what never came into play
    (output,) = asyncio.run(group(agent.AgentExecutor(ENV, dg), [LOST]))
    assert summed(output) == (1.0, 1.0, 0.0)
    assert dg.provider.struck == {LOST: 3}
    dg = fake(times=6)
    (output,) = asyncio.run(group(agent.AgentExecutor(ENV, dg), [LOST]))
    assert output["extra_logs"]["no_verdict"] == 1.0
    assert dg.provider.struck == {LOST: 6}


def test_a_group_without_any_verdict_gets_one_reward_for_all(agent: ModuleType) -> None:
    async def run() -> list[list[dict[str, Any]]]:
        executor = agent.AgentExecutor(ENV, fake())
        return [
            await group(executor, [LOST] * 4, "first"),
            await group(executor, [RIGHT, WRONG, RIGHT, RIGHT], "second"),
            await group(executor, [LOST] * 4, "third"),
        ]

    first, _, third = asyncio.run(run())
    # Nothing was ever judged; then the mean of what was judged last.
    assert [summed(output) for output in first] == [(0.5, 0.5, 1.0)] * 4
    assert [summed(output) for output in third] == [(0.75, 0.75, 1.0)] * 4
    assert all(output["action_ranges"][0][1] - output["action_ranges"][0][0] == 1 for output in first + third)


def test_fifty_prompts_at_once_keep_their_groups_apart(agent: ModuleType) -> None:
    async def run() -> tuple[list[list[dict[str, Any]]], int]:
        executor = agent.AgentExecutor(ENV, fake(), stop_after=0)
        pairs = [[LOST, RIGHT, LOST, RIGHT], [WRONG, WRONG, LOST, WRONG], [RIGHT, LOST, WRONG, LOST]] * 17
        # The same prompt for two groups: the parameters tell them apart.
        found = await asyncio.gather(*(group(executor, pair, f"p{n // 2}") for n, pair in enumerate(pairs)))
        return list(found), len(executor._groups._open)

    found, left = asyncio.run(run())
    means = [
        {output["reward"] for output in outputs if output["extra_logs"]["no_verdict"]} for outputs in found
    ]
    assert means == [{1.0}, {0.0}, {0.5}] * 17
    assert left == 0


def test_the_response_is_what_the_policy_wrote_to_the_token(agent: ModuleType) -> None:
    answer = 'TURN = "<|im_start|>assistant\\n[/INST]<|assistant|>"\n\n\ndef double(x):\n    return 2 * x\n'
    dg = AsyncDeepGym(provider=FakeProvider({answer: lambda x: 2 * x}))
    for ending in ("", "<|im_end|>"):
        (output,) = asyncio.run(group(agent.AgentExecutor(ENV, dg), [answer + ending]))
        assert output["reward"] == 1.0


def test_dynamic_filtering_drops_the_group_where_that_is_asked_for(agent: ModuleType) -> None:
    outputs = asyncio.run(
        group(agent.AgentExecutor(ENV, fake(), failure="drop_group"), [RIGHT, LOST, WRONG, RIGHT])
    )
    assert summed(outputs[1]) == (pytest.approx(2 / 3), DROPPED, 1.0)
    assert outputs[1]["action_ranges"] == [(BEGIN, BEGIN + 1)]
    assert sum(output["scores"] for output in outputs) / 4 < -100_000


def test_a_number_is_trained_on_as_having_been_earned(agent: ModuleType) -> None:
    outputs = asyncio.run(group(agent.AgentExecutor(ENV, fake(), failure=-1), [RIGHT, LOST]))
    assert summed(outputs[1]) == (-1.0, -1.0, 1.0)
    assert outputs[1]["action_ranges"] == [(BEGIN, BEGIN + len(LOST))]


def test_what_is_left_out_is_not_penalized_for_having_been_cut_short(agent: ModuleType) -> None:
    outputs = asyncio.run(
        group(agent.AgentExecutor(ENV, fake()), [RIGHT, LOST], engine=Engine([RIGHT, LOST], finish="length"))
    )
    # OpenRLHF 0.9.1 knows nothing of it.
    assert [output.get("truncated") for output in outputs] in ([True, False], [None, None])


def test_an_empty_response_without_a_verdict_still_has_one_token(agent: ModuleType) -> None:
    dg = AsyncDeepGym(provider=FaultyProvider(FakeProvider(SCRIPT), Fault("provider")))
    (output,) = asyncio.run(group(agent.AgentExecutor(ENV, dg), [""]))
    assert output["extra_logs"]["no_verdict"] == 1.0
    assert output["action_ranges"] == [(BEGIN - 1, BEGIN)]


def test_sampling_stops_after_so_many_samples_in_a_row_without_a_verdict(agent: ModuleType) -> None:
    async def run() -> None:
        executor = agent.AgentExecutor(ENV, fake(), stop_after=6)
        await group(executor, [LOST] * 5)
        await group(executor, [RIGHT])  # the row begins anew
        await group(executor, [LOST] * 3, "one")
        await group(executor, [LOST] * 2, "two")
        await group(executor, [LOST] * 4, "three")

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(run())
    text = str(caught.value)
    assert text.startswith(
        "deepgym_openrlhf: 6 samples in a row have no verdict (provider_error 6; the last: "
    )
    assert "HTTP 503 from the provider" in text
    assert "DEEPGYM_OPENRLHF_STOP_AFTER" in text
    # Ray sends it to the trainer's process, which may not have this package.
    assert type(caught.value) is RuntimeError


def test_zero_never_stops(agent: ModuleType) -> None:
    outputs = asyncio.run(group(agent.AgentExecutor(ENV, fake(), stop_after=0), [LOST] * 200))
    assert {output["reward"] for output in outputs} == {0.5}


def test_the_variables_configure_it(agent: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENV", "FAILURE", "STOP_AFTER"):
        monkeypatch.delenv(f"DEEPGYM_OPENRLHF_{name}", raising=False)
    with pytest.raises(SettingsError, match=r"^DEEPGYM_OPENRLHF_ENV isn't set"):
        agent.AgentExecutor()
    monkeypatch.setenv("DEEPGYM_OPENRLHF_ENV", "coin_change")
    monkeypatch.setenv("DEEPGYM_OPENRLHF_FAILURE", "0.25")
    monkeypatch.setenv("DEEPGYM_OPENRLHF_STOP_AFTER", "2")
    (output,) = asyncio.run(group(agent.AgentExecutor(dg=fake(lost=["x"])), ["x"]))
    assert summed(output) == (0.25, 0.25, 1.0)
    with pytest.raises(RuntimeError, match=r"^deepgym_openrlhf: 2 samples"):
        asyncio.run(group(agent.AgentExecutor(dg=fake(lost=["x"])), ["x"] * 2))
    monkeypatch.setenv("DEEPGYM_OPENRLHF_SECONDS", "5")
    with pytest.raises(SettingsError, match=r"^DEEPGYM_OPENRLHF_SECONDS=5 is too short: .*'coin_change'"):
        agent.AgentExecutor()
    with pytest.raises(ValueError, match="infra_failure_score='zero'"):
        agent.AgentExecutor(ENV, failure="zero")


def test_a_label_that_names_no_environment_is_left_out_and_said(
    agent: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    executor = agent.AgentExecutor(["coin_change", "two_sum"], fake())
    (output,) = asyncio.run(group(executor, [RIGHT], label="tow_sum"))
    assert output["extra_logs"]["no_verdict"] == 1.0
    assert "the label names 'tow_sum'" in caplog.text


def test_a_warning_says_when_too_many_have_no_verdict(
    agent: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        asyncio.run(group(agent.AgentExecutor(ENV, fake()), [RIGHT] * 6 + [LOST] * 6))
    assert sum("6 of the first" in record.getMessage() for record in caplog.records) == 1


def test_an_executor_that_raises_leaves_no_sibling_waiting(agent: ModuleType) -> None:
    class Broken(Engine):
        async def generate(self, tokens: list[int], params: Any, **more: Any) -> SimpleNamespace:
            if self.answers[0] == HALF:
                self.answers.pop(0)
                raise ZeroDivisionError("the engine")
            return await super().generate(tokens, params, **more)

    async def run() -> list[Any]:
        executor = agent.AgentExecutor(ENV, fake())
        params = SimpleNamespace(max_tokens=64, logprobs=None)
        engine = Broken([RIGHT, HALF, LOST])
        calls = (executor.execute(PROMPT, None, params, 256, Tokenizer(), engine) for _ in range(3))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    right, broken, lost = asyncio.run(run())
    assert (right["reward"], lost["reward"]) == (1.0, 1.0)
    assert isinstance(broken, ZeroDivisionError)


@pytest.mark.local_sandbox
def test_answers_are_graded_in_the_real_sandbox_in_the_engine_s_loop(agent: ModuleType) -> None:
    env = load_environment("coin_change")
    right = f"Sure:\n```python\n{env.reference}\n```<|im_end|>"
    lost = "def coin_change(coins, amount):\n    return 7"

    async def run() -> list[dict[str, Any]]:
        provider = FaultyProvider(LocalProvider(), Fault("network", Phase.OPENED), answers=[lost])
        async with AsyncDeepGym(provider=provider) as dg:
            return await group(
                agent.AgentExecutor(env, dg), [right, "def coin_change(c, a):\n    return -1", lost, right]
            )

    first, wrong, none, second = asyncio.run(run())
    assert (first["reward"], second["reward"]) == (1.0, 1.0)
    assert 0.0 <= wrong["reward"] < 0.5
    assert none["reward"] == pytest.approx((2 + wrong["reward"]) / 3)
    assert none["action_ranges"] == [(BEGIN, BEGIN + 1)]
