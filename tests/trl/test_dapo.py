from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, HALF, SCRIPT, WRONG
from deepgym_trl.composite import gate, unmasking
from deepgym_trl.dapo import SoftOverlong, dapo_config, dapo_settings, make_dapo_reward_fn

OURS = GOOD + "\n# the provider fails this one"


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    inner = FakeProvider({**SCRIPT, OURS: SCRIPT[GOOD]})
    with DeepGym(provider=FaultyProvider(inner, Fault("network", Phase.IN_PLAY), answers={OURS})) as made:
        yield made


def ids(*lengths: int) -> list[list[int]]:
    return [[1] * length for length in lengths]


@pytest.mark.parametrize(
    ("length", "penalty"),
    [
        (0, 0.0),
        (79, 0.0),
        (80, 0.0),
        (81, -0.05),
        (90, -0.5),
        (99, -0.95),
        (100, -1.0),
        (101, -1.0),
        (9999, -1.0),
    ],
)
def test_the_penalty_is_the_papers(length: int, penalty: float) -> None:
    found = SoftOverlong(100, 20).penalty(length)
    assert found == pytest.approx(penalty)
    assert math.copysign(1, found) == (1 if penalty == 0 else -1)


@pytest.mark.parametrize(("longest", "cache"), [(16, 4), (20, 20), (7, 3)])
def test_the_penalty_is_what_trls_own_second_reward_function_gives(longest: int, cache: int) -> None:
    rewards = pytest.importorskip("trl.rewards")
    lengths = range(longest + 5)
    theirs = rewards.get_soft_overlong_punishment(longest, cache)(completion_ids=ids(*lengths))
    assert SoftOverlong(longest, cache)(completion_ids=ids(*lengths)) == pytest.approx(theirs)


@pytest.mark.parametrize(("longest", "cache"), [(100, 0), (100, 101), (100, -1), (0, 0)])
def test_a_cache_that_is_no_part_of_the_length_is_refused(longest: int, cache: int) -> None:
    with pytest.raises(ValueError, match=f"soft_punish_cache={cache} of max_completion_length={longest}"):
        make_dapo_reward_fn(ADD, max_completion_length=longest, soft_punish_cache=cache)


@pytest.mark.parametrize("weight", [-0.1, math.inf, math.nan])
def test_a_weight_that_would_reward_length_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="overlong_weight"):
        make_dapo_reward_fn(ADD, max_completion_length=9, soft_punish_cache=3, overlong_weight=weight)


def test_the_penalty_is_added_and_a_row_without_a_verdict_stays_none(dg: DeepGym) -> None:
    reward = make_dapo_reward_fn(
        ADD, max_completion_length=10, soft_punish_cache=4, overlong_weight=0.5, dg=dg, extract=False
    )
    logged: dict[str, list[float]] = {}
    answers = [GOOD, HALF, WRONG, OURS]
    call = {"prompts": ["p"] * 4, "completions": answers, "completion_ids": ids(6, 8, 99, 99)}
    found = reward(**call, log_metric=lambda key, value: logged.setdefault(key, []).append(value))
    assert found == pytest.approx([1.0, 0.25, -0.5, None])
    assert logged["deepgym/overlong_penalty"] == pytest.approx([0.0, -0.5, -1.0])
    assert logged["deepgym/judged_mean_score"] == [1.0, 0.5, 0.0]
    assert not any("component" in key for key in logged)
    assert reward.__name__ == "deepgym"
    assert reward.rewards_for(**call) == pytest.approx(found)

    lost: dict[str, float] = {}
    reward(["p"], [OURS], ids(3), log_metric=lost.__setitem__)
    assert math.isnan(lost["deepgym/overlong_penalty"])
    assert lost.keys() == logged.keys()


def test_without_completion_ids_the_error_says_what_to_do(dg: DeepGym) -> None:
    reward = make_dapo_reward_fn(ADD, max_completion_length=10, soft_punish_cache=4, dg=dg, extract=False)
    with pytest.raises(ValueError, match=r"needs completion_ids.*call with completion_ids=\[...\]"):
        reward(["p"], [GOOD])


def test_it_is_one_deepgym_reward_with_the_options_of_one() -> None:
    reward = make_dapo_reward_fn(
        ADD, max_completion_length=10, soft_punish_cache=4, name="dapo", env_column="which"
    )
    assert (reward.__name__, reward.env_column) == ("dapo", "which")
    assert unmasking([reward]) == []
    assert unmasking([reward, gate(len, by=reward)]) == []
    assert unmasking([reward, len]) == ["len"]
    assert pickle.loads(pickle.dumps(reward)).__name__ == "dapo"
    reward.check_row({"prompt": "p"})
    with pytest.raises(TypeError, match="max_completion_lenght"):
        make_dapo_reward_fn(ADD, max_completion_length=10, soft_punish_cache=4, max_completion_lenght=10)


def test_the_settings_are_dapos_and_can_be_changed() -> None:
    assert dapo_settings() == {
        "loss_type": "dapo",
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "scale_rewards": "group",
        "mask_truncated_completions": True,
    }
    changed = dapo_settings(beta=0.01, num_generations=16)
    assert (changed["beta"], changed["num_generations"], changed["loss_type"]) == (0.01, 16, "dapo")


# --- in the real trainer -----------------------------------------------------------------------------------


class Script:
    """As `extract`: whatever the policy wrote, the next scripted answer."""

    def __init__(self, answers: list[str]) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, completion: Any) -> str:
        self.asked += 1
        return self.answers[(self.asked - 1) % len(self.answers)]


def config(folder: Path, **over: Any) -> Any:
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 10,
        "max_steps": 3,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "seed": 3,
    }
    return dapo_config(**{**options, **over})


def test_the_config_is_trls_own(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    made = config(tmp_path, beta=0.04)
    assert isinstance(made, trl.GRPOConfig)
    assert (made.loss_type, made.epsilon, made.epsilon_high, made.beta) == ("dapo", 0.2, 0.28, 0.04)
    assert made.mask_truncated_completions is True
    with pytest.raises(TypeError, match="epsilon_hihg"):
        config(tmp_path, epsilon_hihg=0.28)


def test_in_a_dapo_run_a_missing_verdict_moves_nobody_and_length_does(
    dg: DeepGym, tiny_model: str, tmp_path: Path
) -> None:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    answers = [GOOD, WRONG, OURS, HALF, GOOD, GOOD, WRONG, WRONG]
    scores: list[float | None] = [1.0, 0.0, None, 0.5, 1.0, 1.0, 0.0, 0.0]
    reward = make_dapo_reward_fn(
        ADD, max_completion_length=10, soft_punish_cache=6, dg=dg, extract=Script(answers)
    )
    lengths: list[list[int]] = []

    def spy(**call: Any) -> list[float | None]:
        lengths.append([len(one) for one in call["completion_ids"]])
        return reward(**call)

    batches: list[Any] = []
    rows = [{"prompt": [{"role": "user", "content": f"add {index}"}]} for index in range(8)]
    # Makes the end of an answer likelier with its length, so that some are truncated and some are not.
    growing = {"exponential_decay_length_penalty": (2, 2.0)}
    trainer = trl.GRPOTrainer(
        model=tiny_model,
        reward_funcs=spy,
        args=config(tmp_path, generation_kwargs=growing),
        train_dataset=Dataset.from_list(rows),
    )
    score = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: batches.append(score(inputs)) or batches[-1]
    trainer.train()

    truncated = 0
    assert len(batches) == len(lengths) == 3
    for batch, batch_lengths, log in zip(batches, lengths, trainer.state.log_history, strict=False):
        penalties = [reward.penalty.penalty(length) for length in batch_lengths]
        rewards = [None if s is None else s + p for s, p in zip(scores, penalties, strict=True)]
        expected = [a for group in (rewards[:4], rewards[4:]) for a in advantages(group)]
        assert batch["advantages"].tolist() == pytest.approx(expected, abs=1e-4)
        assert batch["advantages"][2] == 0
        judged = [p for s, p in zip(scores, penalties, strict=True) if s is not None]
        assert log["deepgym/overlong_penalty"] == pytest.approx(sum(judged) / 7, abs=1e-5)
        assert log["deepgym/judged_mean_score"] == pytest.approx(0.5)
        assert log["deepgym/verdict_rate"] == pytest.approx(7 / 8)
        for row, tokens in enumerate(batch["completion_mask"].sum(dim=1).tolist()):
            assert tokens in (0, batch_lengths[row])
            truncated += tokens == 0
            # Out of the loss, yet its reward is in its siblings' baseline, as the advantages above say.
            assert tokens or batch_lengths[row] == 10
    assert 0 < truncated < 24, lengths
    assert len({length for batch_lengths in lengths for length in batch_lengths}) > 2, lengths


def advantages(rewards: list[float | None]) -> list[float]:
    judged = [reward for reward in rewards if reward is not None]
    mean = sum(judged) / len(judged)
    std = math.sqrt(sum((reward - mean) ** 2 for reward in judged) / (len(judged) - 1))
    return [0.0 if reward is None else (reward - mean) / (std + 1e-4) for reward in rewards]
