"""The reward function by itself: what it takes, what it logs, what it refuses, and how often it judges."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
import pickle
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import DeepGym, load_environment
from deepgym.contract.evidence import Phase
from deepgym.environments import EnvironmentLimits, load_suite
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError
from deepgym.models import RunResult
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, HALF, PROGRAM, SCRIPT, WRONG
from deepgym_trl import (
    TRLReward,
    UnsupportedTRLError,
    envs,
    make_async_trl_reward_fn,
    make_trl_reward_fn,
    versions,
)
from deepgym_trl.metrics import NO_VERDICT_ERRORS, groups_lost

LOST = Fault("provider", Phase.REPORTED)


class Trainer:
    """As much of a TRL trainer as a reward call sees."""

    def __init__(self, *reward_funcs: Any, world_size: int = 1, ddp_timeout: float = 1800) -> None:
        self.reward_funcs = list(reward_funcs)
        self.args = SimpleNamespace(world_size=world_size, ddp_timeout=ddp_timeout)
        self.metrics: dict[str, list[float]] = defaultdict(list)
        self.columns: dict[str, list[Any]] = defaultdict(list)

    def _log_metric(self, name: str, value: float) -> None:
        self.metrics[name].append(value)

    def _log_extra(self, name: str, values: list[Any]) -> None:
        self.columns[name].extend(values)

    def call(
        self, reward: Any, completions: list[Any], prompts: list[Any] | None = None, **columns: Any
    ) -> Any:
        return reward(
            prompts=prompts or ["p"] * len(completions),
            completions=completions,
            completion_ids=[[1]] * len(completions),
            trainer_state=SimpleNamespace(global_step=0),
            log_metric=self._log_metric,
            log_extra=self._log_extra,
            **columns,
        )


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    with DeepGym(provider=FakeProvider(SCRIPT)) as client:
        yield client


@pytest.fixture
def losing() -> Iterator[DeepGym]:
    """A client that loses the verdict of each ``HALF``."""
    with DeepGym(provider=FaultyProvider(FakeProvider(SCRIPT), LOST, answers={HALF})) as client:
        yield client


def test_text_and_conversations_are_answers(dg: DeepGym) -> None:
    fenced = f"Here:\n```python\n{GOOD}\n```"
    said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": fenced}]
    worked = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "x"}]},
        {"role": "tool", "content": WRONG},
        {"role": "assistant", "content": fenced},
    ]
    reward = make_trl_reward_fn(ADD, dg=dg)
    assert reward(["p"] * 5, [fenced.strip(), said, worked, "", []]) == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_a_row_chooses_its_environment(dg: DeepGym) -> None:
    reward = make_trl_reward_fn([ADD, PROGRAM], dg=dg, env_column="task", extract=False)
    batch = reward.results(["p"] * 2, [GOOD, GOOD], task=[PROGRAM.name, ADD.name])
    assert [result.env_name for result in batch.results] == [PROGRAM.name, ADD.name]


def test_a_suite_and_no_environment_at_all_choose_by_name() -> None:
    easy = load_suite("easy")
    name = easy.environments[0].name
    for reward in (TRLReward(easy), TRLReward()):
        reward.check_row({"prompt": "p", "env_id": name})
        assert reward.rows.choose(1, {"env_id": [name]}) == [load_environment(name)]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({}, ValueError, "no column 'env_id'"),
        ({"env_id": ["laws/add"]}, ValueError, "1 values for 2 completions"),
        ({"env_id": [None, None]}, ValueError, "row 0: column 'env_id' must name"),
        ({"env_id": ["laws/add", "laws/ad"]}, UnknownNameError, "row 1.*did you mean 'laws/add'"),
    ],
)
def test_a_row_without_a_known_environment_raises_at_once(
    dg: DeepGym, columns: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_trl_reward_fn([ADD, PROGRAM], dg=dg)(["p"] * 2, [GOOD, GOOD], **columns)


@pytest.mark.parametrize(
    ("env", "error", "words"),
    [
        ("coin_chang", UnknownNameError, "coin_change"),
        ([], ValueError, "no environments"),
        ([ADD, ADD], ValueError, "several are 'laws/add'"),
        ([3], TypeError, "not int"),
        ("fix_the_program", InvalidEnvironmentError, "worked on in steps"),
    ],
)
def test_a_wrong_environment_raises_when_the_function_is_made(
    env: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_trl_reward_fn(env)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deadline": 5.0}, "can't hold one run and its repetition"),
        ({"deadline": 1790.0}, "doesn't fit under ddp_timeout"),
        ({"ddp_timeout": 40.0}, "doesn't fit under ddp_timeout"),
        ({"deadline": 0.0}, "doesn't fit"),
    ],
)
def test_a_deadline_that_does_not_fit_raises_when_the_function_is_made(
    options: dict[str, float], words: str
) -> None:
    slow = ADD.model_copy(update={"limits": EnvironmentLimits(wall=10.0)})
    with pytest.raises(ValueError, match=words):
        make_trl_reward_fn(slow, **options)


def test_a_deadline_that_does_not_fit_a_rows_environment_is_seen_by_check_row() -> None:
    with pytest.raises(ValueError, match=r"coin_change.*can't hold"):
        TRLReward(deadline=5.0).check_row({"env_id": "coin_change"})


def test_the_same_keys_are_logged_at_every_call(losing: DeepGym) -> None:
    reward = make_trl_reward_fn(ADD, dg=losing, extract=False)
    trainers = [Trainer(reward) for _ in range(3)]
    for trainer, completions in zip(trainers, ([GOOD, WRONG], [HALF, HALF], [GOOD, HALF]), strict=True):
        trainer.call(reward, completions)
    assert len({frozenset(trainer.metrics) for trainer in trainers}) == 1
    assert len({frozenset(trainer.columns) for trainer in trainers}) == 1
    assert all(name.startswith("deepgym/") for name in trainers[0].metrics)


def test_what_is_logged_of_a_batch(losing: DeepGym) -> None:
    reward = make_trl_reward_fn(ADD, dg=losing, extract=False)
    trainer = Trainer(reward)
    completions = [GOOD, WRONG, HALF, "raise SystemExit", GOOD, HALF, HALF, HALF]
    prompts = ["a"] * 4 + ["b"] * 4
    script = {**SCRIPT, "raise SystemExit": SCRIPT[""]}
    losing.provider.inner.script = script  # type: ignore[attr-defined]
    rewards = trainer.call(reward, completions, prompts)
    assert rewards == [1.0, 0.0, None, 0.0, 1.0, None, None, None]
    logged = {name: sum(values) / len(values) for name, values in trainer.metrics.items()}
    assert logged["deepgym/verdict_rate"] == 0.5
    assert logged["deepgym/judged_mean_score"] == 0.5
    assert logged["deepgym/judged_pass_rate"] == 0.5
    assert logged["deepgym/model_fault_rate"] == 1 / 8
    assert logged["deepgym/no_verdict/provider_error"] == 0.5
    assert sum(logged[f"deepgym/no_verdict/{kind}"] for kind in NO_VERDICT_ERRORS) == 0.5
    assert logged["deepgym/groups_lost"] == 0.5
    assert logged["deepgym/samples"] == 8
    assert 0 <= logged["deepgym/latency_p50_s"] <= logged["deepgym/latency_p95_s"]
    assert logged["deepgym/latency_p95_s"] <= logged["deepgym/latency_max_s"]
    columns = trainer.columns
    assert columns["deepgym_env"] == ["laws/add"] * 8
    assert columns["deepgym_verdict"][:4] == ["passed", "failed", "none", "failed"]
    assert columns["deepgym_error"][1:4] == ["", "provider_error", "solution_error"]
    assert columns["deepgym_score"][:2] == [1.0, 0.0]
    assert math.isnan(columns["deepgym_score"][2])
    assert len(set(columns["deepgym_run_id"])) == 8
    assert {len(column) for column in columns.values()} == {8}


def test_a_batch_that_nobody_judged_has_no_mean(losing: DeepGym) -> None:
    reward = make_trl_reward_fn(ADD, dg=losing, extract=False)
    trainer = Trainer(reward)
    assert trainer.call(reward, [HALF, HALF]) == [None, None]
    assert math.isnan(trainer.metrics["deepgym/judged_mean_score"][0])
    assert trainer.metrics["deepgym/verdict_rate"] == [0.0]
    assert trainer.metrics["deepgym/groups_lost"] == [1.0]


@pytest.mark.parametrize(
    ("prompts", "judged", "share"),
    [
        ([], [], 0.0),
        (["a", "a"], [True, True], 0.0),
        (["a", "a"], [True, False], 1.0),
        (["a", "a", "b", "b"], [True, True, False, False], 0.5),
        ([[{"role": "user"}]] * 2, [True, True], 0.0),
    ],
)
def test_a_group_with_fewer_than_two_verdicts_is_lost(
    prompts: list[Any], judged: list[bool], share: float
) -> None:
    assert groups_lost(prompts, judged) == share


class Counting:
    """An observer that counts results."""

    def __init__(self) -> None:
        self.count = 0

    def on_phase(self, index: int, phase: object) -> None: ...

    def on_result(self, index: int, result: RunResult) -> None:
        self.count += 1


@pytest.mark.parametrize("first", ["gate", "reward"])
def test_a_batch_is_judged_once_for_the_function_and_for_who_asks_about_it(dg: DeepGym, first: str) -> None:
    seen = Counting()
    reward = make_trl_reward_fn(ADD, dg=dg, extract=False, observers=[seen])
    trainer = Trainer(reward)
    completions: list[Any] = [GOOD, WRONG]
    for calls in (1, 2):
        if first == "gate":
            asked = reward.rewards_for(prompts=["p"] * 2, completions=completions)
            called = trainer.call(reward, completions)
        else:
            called = trainer.call(reward, completions)
            asked = reward.rewards_for(prompts=["p"] * 2, completions=completions)
        assert asked == called == [1.0, 0.0]
        assert seen.count == 2 * calls
        completions = list(completions)


def test_the_same_completions_are_judged_again_at_a_second_call(dg: DeepGym) -> None:
    seen = Counting()
    reward = make_trl_reward_fn(ADD, dg=dg, extract=False, observers=[seen])
    completions = [GOOD]
    reward(["p"], completions)
    reward(["p"], completions)
    assert seen.count == 2


def test_the_async_form_is_a_coroutine_function_and_judges_once(dg: DeepGym) -> None:
    seen = Counting()
    reward = make_async_trl_reward_fn(ADD, dg=dg, extract=False, observers=[seen], name="judge")
    assert inspect.iscoroutinefunction(reward)
    assert reward.__name__ == "judge"
    trainer = Trainer(reward)
    completions: list[Any] = [GOOD, HALF]
    early = reward.args[0].rewards_for(prompts=["p"] * 2, completions=completions)  # type: ignore[attr-defined]
    assert asyncio.run(trainer.call(reward, completions)) == early == [1.0, 0.5]
    assert seen.count == 2


def test_both_forms_pickle() -> None:
    sync = pickle.loads(pickle.dumps(make_trl_reward_fn(ADD, name="judge", extract=False)))
    asynchronous = pickle.loads(pickle.dumps(make_async_trl_reward_fn("coin_change", name="judge")))
    assert sync.__name__ == asynchronous.__name__ == "judge"
    assert sync.rows.single == ADD
    assert inspect.iscoroutinefunction(asynchronous)


def test_it_works_in_a_thread_and_inside_a_running_loop(dg: DeepGym) -> None:
    reward = make_trl_reward_fn(ADD, dg=dg, extract=False)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(reward(["p"], [GOOD])))
    thread.start()
    thread.join()

    async def inside() -> Any:
        return reward(["p"], [HALF])

    assert [*found, asyncio.run(inside())] == [[1.0], [0.5]]


@pytest.mark.usefixtures("local_sandbox")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_it_works_in_a_forked_child() -> None:
    reward = make_trl_reward_fn("coin_change")
    reference = str(load_environment("coin_change").reference)
    assert reward(["p"], [reference]) == [1.0]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if reward(["p"] * 2, [reference, "x"]) == [1.0, 0.0] else 1
            reward.close()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    reward.close()


@pytest.mark.parametrize("found", ["1.5.1", "0.29.0", "1.0.0"])
def test_a_trl_that_turns_none_into_zero_is_refused(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(versions, "installed", lambda: found)
    with pytest.raises(UnsupportedTRLError, match=f"TRL {found}.*pip install"):
        make_trl_reward_fn("coin_change")
    assert make_trl_reward_fn("coin_change", masked=False).__name__ == "deepgym"


@pytest.mark.parametrize("found", ["1.6.0", "1.6.0rc1", "1.16.0", "2.0", None])
def test_a_trl_that_masks_none_is_taken(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    monkeypatch.setattr(versions, "installed", lambda: found)
    assert make_trl_reward_fn("coin_change").__name__ == "deepgym"


def test_another_reward_function_beside_it_is_warned_of_once(
    dg: DeepGym, caplog: pytest.LogCaptureFixture
) -> None:
    def long_enough(completions: list[str], **others: Any) -> list[float]:
        return [1.0] * len(completions)

    reward = make_trl_reward_fn(ADD, dg=dg, extract=False)
    trainer = Trainer(reward, long_enough)
    with caplog.at_level(logging.WARNING):
        trainer.call(reward, [GOOD])
        trainer.call(reward, [GOOD])
    warnings = [record.message for record in caplog.records if "CompositeReward" in record.message]
    assert len(warnings) == 1
    assert "long_enough" in warnings[0]


def test_a_trainer_whose_ranks_do_not_wait_long_enough_is_refused(dg: DeepGym) -> None:
    reward = make_trl_reward_fn(ADD, dg=dg, extract=False)
    with pytest.raises(ValueError, match="ddp_timeout is 60 s"):
        Trainer(reward, world_size=2, ddp_timeout=60).call(reward, [GOOD])
    alone = make_trl_reward_fn(ADD, dg=dg, extract=False)
    assert Trainer(alone, world_size=1, ddp_timeout=60).call(alone, [GOOD]) == [1.0]


def test_an_environment_is_named_by_an_attribute_for_yaml() -> None:
    reward = envs.coin_change
    assert reward is envs.coin_change
    assert reward.rows.single == load_environment("coin_change")
    assert "coin_change" in dir(envs)
    with pytest.raises(AttributeError, match="did you mean 'coin_change'"):
        _ = envs.coin_chang


def test_the_default_reward_is_one_object_that_rows_choose_for() -> None:
    import deepgym_trl

    assert deepgym_trl.reward is deepgym_trl.reward
    assert deepgym_trl.reward.rows.single is None
    with pytest.raises(AttributeError, match="no attribute 'rewrd'"):
        _ = deepgym_trl.rewrd


WITHOUT = """
import sys
sys.modules["trl"] = sys.modules["transformers"] = None
import deepgym_trl
for name in ("DeepGymGRPOTrainer", "MaskedRateCallback"):
    try:
        getattr(deepgym_trl, name)
    except ImportError as error:
        print(type(error).__name__, error)
try:
    deepgym_trl.dapo_config()
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_what_needs_a_trainer_that_is_missing_says_how_to_install_it() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 3
    for name, line in zip(("DeepGymGRPOTrainer", "MaskedRateCallback", "dapo_config"), lines, strict=True):
        assert line.startswith(f"MissingPackageError deepgym_trl.{name} needs tr")
        assert line.endswith('run: pip install "deepgym-trl[trainer]==1.0.0"')


LOADED = """
import sys
import deepgym_trl
from deepgym_trl import make_trl_reward_fn, reward, envs
make_trl_reward_fn("coin_change")
print(sorted({name.partition(".")[0] for name in sys.modules} & {"accelerate", "datasets", "torch", "transformers", "trl"}))
"""


def test_the_rewards_load_no_trainer(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
