"""``deepgym_axolotl.reward``: configured by the section or by the rows, in this process and in reward workers."""

from __future__ import annotations

import json
import logging
import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.exceptions import UnknownNameError
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, SCRIPT
from deepgym_axolotl import reward
from deepgym_axolotl.settings import ConfigError, Setup

from .axo import fresh

GOOD, HALF, WRONG = list(ANSWERS)[:3]
LOST = "def add(a, b):\n    return lost"


@pytest.fixture
def clean() -> Iterator[None]:
    with fresh():
        yield


@pytest.fixture
def env(tmp_path: Path) -> str:
    """A folder with the environment whose answers are scripted."""
    cases = [{"args": list(case.args), "expected": case.expected} for case in ADD.verify.cases]
    lines = [f"[[verify.cases]]\nargs = {case['args']}\nexpected = {case['expected']}" for case in cases]
    head = f'name = "add"\ntask = "{ADD.task}"\n\n[verify]\nkind = "cases"\nfunction = "add"\n'
    (tmp_path / "environment.toml").write_text(head + "\n".join(lines) + "\n")
    return str(tmp_path)


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default client's provider fails every run of ``LOST``."""

    def client() -> DeepGym:
        provider = FakeProvider({**SCRIPT, LOST: SCRIPT[GOOD]})
        return DeepGym(provider=FaultyProvider(provider, Fault("provider", Phase.IN_PLAY), answers={LOST}))

    monkeypatch.setattr("deepgym.client.DeepGym", client)


def configure(env: str | None, **keys: Any) -> None:
    trl = {"num_generations": 4, "max_completion_length": 10}
    Setup.of({"deepgym": {"env": env, **keys}, "trl": trl}).leave()


def chat(code: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": f"```python\n{code}\n```"}]


def judged(*answers: str, **columns: Any) -> list[float | None]:
    return reward(prompts=["p"] * len(answers), completions=[chat(answer) for answer in answers], **columns)


@pytest.mark.usefixtures("clean", "local_sandbox")
def test_without_the_plugin_each_row_names_its_environment() -> None:
    good = "def two_sum(nums, target):\n    return [0, 1]"
    rewards = judged(good, "", env_id=["two_sum", "coin_change"])
    assert rewards[0] is not None
    assert 0.0 < rewards[0] < 1.0
    assert rewards[1] == 0.0
    with pytest.raises(UnknownNameError, match=r"row 1, column 'env_id': .*two_sum"):
        judged(good, "", env_id=["two_sum", "two_sums"])
    with pytest.raises(ValueError, match="the dataset has no column 'env_id'"):
        judged(good)


@pytest.mark.usefixtures("clean", "outage")
def test_the_section_names_the_environment_and_an_outage_is_none(env: str) -> None:
    configure(env)
    assert judged(GOOD, HALF, LOST, WRONG) == [1.0, 0.5, None, 0.0]
    assert reward.__name__ == "deepgym"


@pytest.mark.usefixtures("clean", "outage")
def test_all_of_a_text_is_the_answer_if_nothing_is_extracted(env: str) -> None:
    configure(env, extract=False)
    bare = [[{"role": "assistant", "content": GOOD}], [{"role": "assistant", "content": LOST}]]
    assert reward(prompts=["p"] * 2, completions=bare) == [1.0, None]


@pytest.mark.usefixtures("clean", "outage")
def test_with_the_groups_mean_nothing_is_none(env: str) -> None:
    configure(env, no_verdict="group_mean")
    assert judged(GOOD, HALF, LOST, WRONG) == [1.0, 0.5, 0.5, 0.0]
    assert judged(*[LOST] * 4) == [0.0] * 4
    with pytest.raises(ConfigError, match="was given 3 rows"):
        judged(GOOD, GOOD, LOST)


@pytest.mark.usefixtures("clean", "outage")
def test_an_evaluation_may_ask_for_single_answers(env: str) -> None:
    configure(env, no_verdict="group_mean")
    trainer = Trainer(training=False)
    assert judged(GOOD, LOST, HALF, log_metric=trainer.log) == [1.0, 0.75, 0.5]


@pytest.mark.usefixtures("clean", "outage")
def test_a_trainer_that_takes_none_for_0_is_refused_at_its_first_call(env: str) -> None:
    configure(env)
    trainer = AsyncGRPOTrainer()
    with pytest.raises(ConfigError, match=r"trl\.async_prefetch"):
        judged(GOOD, log_metric=trainer.log)
    with pytest.raises(ConfigError, match=r"trl\.async_prefetch"):
        reward.rewards_for([chat(GOOD)], prompts=["p"], log_metric=trainer.log)


@pytest.mark.usefixtures("clean", "outage")
def test_a_composite_and_a_gate_know_it_for_deepgyms(env: str) -> None:
    from deepgym_trl.composite import CompositeReward, gate, unmasking

    configure(env)
    short = CompositeReward(reward, lengths, weights=(1.0, 0.5))
    assert unmasking([short]) == []
    assert unmasking([reward, lengths]) == ["lengths"]
    completions = [chat(GOOD), chat(LOST)]
    assert short(prompts=["p"] * 2, completions=completions) == [1.5, None]
    assert gate(lengths, by=reward)(prompts=["p"] * 2, completions=completions) == [1.0, None]
    assert reward(prompts=["p"] * 2, completions=completions) == [1.0, None]


def lengths(completions: list[Any], **columns: Any) -> list[float]:
    return [1.0] * len(completions)


@pytest.mark.usefixtures("clean", "outage")
def test_dapos_penalty_leaves_an_outage_none(env: str) -> None:
    configure(env, dapo=True)
    rewards = judged(GOOD, GOOD, LOST, completion_ids=[[1] * 8, [1] * 9, [1] * 10])
    assert rewards == [1.0, 0.5, None]


@pytest.mark.usefixtures("clean", "outage")
def test_it_pickles_as_its_name(env: str) -> None:
    configure(env)
    assert pickle.loads(pickle.dumps(reward)) is reward
    assert pickle.loads(pickle.dumps([reward, judged]))[0] is reward


@pytest.mark.local_sandbox
@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_process_judges_by_the_same_section(env: str, method: str) -> None:
    configure(env, no_verdict="group_mean")
    completions = [chat(answer) for answer in (GOOD, HALF, WRONG, GOOD)]
    # The function goes there as its name, as it goes to Axolotl's own workers.
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply_async(reward, (["p"] * 4, completions, [[1]] * 4))
        assert found.get(60) == [1.0, 0.5, 0.0, 1.0]


@pytest.mark.usefixtures("clean", "outage")
def test_where_nothing_can_be_logged_the_warning_comes_from_here(
    env: str, caplog: pytest.LogCaptureFixture
) -> None:
    configure(env, no_verdict="group_mean", warn_above=0.1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            judged(GOOD, LOST, LOST, LOST)
        assert caplog.text == ""
        judged(GOOD, LOST, LOST, LOST)
    assert "deepgym_axolotl: 11 of the first" in caplog.text
    assert "provider_error 11" in caplog.text


@pytest.mark.usefixtures("clean", "outage")
def test_where_metrics_can_be_logged_all_of_them_are(env: str, caplog: pytest.LogCaptureFixture) -> None:
    configure(env, no_verdict="group_mean", warn_above=0.0)
    trainer = Trainer(training=True)
    judged(GOOD, LOST, HALF, WRONG, log_metric=trainer.log)
    assert trainer.logged["deepgym/verdict_rate"] == [0.75]
    assert trainer.logged["deepgym/no_verdict/provider_error"] == [0.25]
    assert trainer.logged["deepgym/judged_mean_score"] == [1.0, 0.5, 0.0]
    assert "samples in a block" not in caplog.text


class Trainer:
    """As much of one as a reward call shows."""

    def __init__(self, training: bool = True) -> None:
        self.args = SimpleNamespace(world_size=1, ddp_timeout=1800, async_prefetch=True)
        self.reward_funcs = [reward]
        self.num_generations = 4
        self.model = SimpleNamespace(training=training)
        self.logged: dict[str, list[float]] = {}

    def log(self, name: str, value: float) -> None:
        self.logged.setdefault(name, []).append(value)


class AsyncGRPOTrainer(Trainer):
    pass


def test_a_deadline_that_does_not_fit_is_an_error_of_the_section(env: str) -> None:
    with fresh():
        configure(env, deadline=5.0)
        with pytest.raises(ValueError, match="can't hold one run and its"):
            judged(GOOD)
        configure(env, deadline=1795.0)
        with pytest.raises(ValueError, match="doesn't fit under ddp_timeout"):
            judged(GOOD)


def test_the_setup_is_json_that_anyone_can_read(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    with fresh():
        configure(env)
        assert json.loads(os.environ["DEEPGYM_AXOLOTL"])["section"]["env"] == env
