"""Our estimators are verl's to the bit, but for rows without a verdict: those are in no baseline."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from deepgym_verl.surroundings import PATCH

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    import torch
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo import core_algos
    from verl.trainer.ppo.ray_trainer import apply_kl_penalty, compute_advantage
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    from deepgym_verl.advantages import deepgym_grpo, deepgym_rloo, patch_grpo
    from verl import DataProto

#: A machine that does much else is no failure.
unhurried = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
VERLS = SimpleNamespace(
    grpo=core_algos.compute_grpo_outcome_advantage, rloo=core_algos.compute_rloo_outcome_advantage
)
LENGTH = 5


@pytest.fixture
def unpatched() -> Iterator[None]:
    """What the patch replaces is put back."""
    before = core_algos.compute_grpo_outcome_advantage, dict(core_algos.ADV_ESTIMATOR_REGISTRY)
    yield
    core_algos.compute_grpo_outcome_advantage = before[0]
    core_algos.ADV_ESTIMATOR_REGISTRY.clear()
    core_algos.ADV_ESTIMATOR_REGISTRY.update(before[1])


class Batch:
    """Rows of groups; ``masked`` ones have no verdict."""

    def __init__(
        self,
        groups: Sequence[Any],
        scores: Sequence[float],
        masked: Sequence[bool],
        lengths: Sequence[int] | None = None,
        spread: bool = False,
    ) -> None:
        self.index = np.array([f"uid-{each}" for each in groups], dtype=object)
        lengths = [LENGTH] * len(groups) if lengths is None else lengths
        self.mask = torch.zeros(len(groups), LENGTH, dtype=torch.long)
        self.rewards = torch.zeros(len(groups), LENGTH)
        for row, (score, length) in enumerate(zip(scores, lengths, strict=True)):
            self.mask[row, :length] = 1
            self.rewards[row, length - 1] = score
            if spread:  # as with a KL penalty in the reward: a little of it at each token
                self.rewards[row, :length] -= torch.arange(length) * 0.0137 + 0.003 * score
        self.masked = torch.tensor(list(masked))
        self.mask[self.masked] = 0
        self.judged = (~self.masked).nonzero().flatten()

    def of(self, estimator: Any, **more: Any) -> Any:
        advantages, returns = estimator(
            token_level_rewards=self.rewards.clone(),
            response_mask=self.mask.clone(),
            index=self.index,
            **more,
        )
        assert advantages.shape == returns.shape == self.rewards.shape
        assert torch.equal(advantages, returns)
        return advantages

    def of_judged(self, estimator: Any, **more: Any) -> Any:
        """What verl makes of the judged rows alone."""
        rows = self.judged
        advantages, _ = estimator(
            token_level_rewards=self.rewards[rows].clone(),
            response_mask=self.mask[rows].clone(),
            index=self.index[rows.numpy()],
            **more,
        )
        return advantages

    def lone(self) -> set[int]:
        """Judged rows without a judged sibling."""
        judged = self.judged.tolist()
        found = [self.index[row] for row in judged]
        return {row for row in judged if found.count(self.index[row]) == 1}


@st.composite
def batches(draw: Any, masks: bool) -> Batch:
    count = draw(st.integers(1, 16))
    groups = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    values = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(-2, 2, width=32))
    scores = draw(st.lists(values, min_size=count, max_size=count))
    lengths = draw(st.lists(st.integers(1, LENGTH), min_size=count, max_size=count))
    masked = draw(st.lists(st.booleans(), min_size=count, max_size=count)) if masks else [False] * count
    return Batch(groups, scores, masked, lengths, spread=draw(st.booleans()))


def same(one: Any, other: Any) -> bool:
    """To the bit, but for the sign of a zero."""
    return bool(torch.equal(one + 0.0, other + 0.0))


# --- nothing masked --------------------------------------------------------------------------------------------


@given(batch=batches(masks=False), norm=st.booleans())
@unhurried
def test_grpo_is_verl_s_to_the_bit_where_every_row_has_a_verdict(batch: Batch, norm: bool) -> None:
    ours = batch.of(deepgym_grpo, norm_adv_by_std_in_grpo=norm)
    theirs = batch.of(VERLS.grpo, norm_adv_by_std_in_grpo=norm)
    several = [row for row in range(len(batch.index)) if row not in batch.lone()]
    assert same(ours[several], theirs[several])
    assert not ours[list(batch.lone())].any()


@given(batch=batches(masks=False))
@unhurried
def test_rloo_is_verl_s_to_the_bit_where_every_row_has_a_verdict(batch: Batch) -> None:
    ours, theirs = batch.of(deepgym_rloo), batch.of(VERLS.rloo)
    several = [row for row in range(len(batch.index)) if row not in batch.lone()]
    assert same(ours[several], theirs[several])
    assert not ours[list(batch.lone())].any()


# --- some masked -----------------------------------------------------------------------------------------------


@given(batch=batches(masks=True), norm=st.booleans())
@unhurried
def test_grpo_is_verl_s_of_the_judged_rows_alone(batch: Batch, norm: bool) -> None:
    assume(len(batch.judged))
    ours = batch.of(deepgym_grpo, norm_adv_by_std_in_grpo=norm)
    theirs = torch.zeros_like(ours)
    theirs[batch.judged] = batch.of_judged(VERLS.grpo, norm_adv_by_std_in_grpo=norm)
    theirs[list(batch.lone())] = 0.0
    assert same(ours, theirs)
    assert not ours[batch.masked].any()


@given(batch=batches(masks=True))
@unhurried
def test_rloo_is_verl_s_of_the_judged_rows_alone(batch: Batch) -> None:
    assume(len(batch.judged))
    ours = batch.of(deepgym_rloo)
    theirs = torch.zeros_like(ours)
    theirs[batch.judged] = batch.of_judged(VERLS.rloo)
    theirs[list(batch.lone())] = 0.0
    assert same(ours, theirs)
    assert not ours[batch.masked].any()


@given(batch=batches(masks=True), score=st.floats(-100, 100, width=32))
@unhurried
def test_whatever_stands_in_a_masked_row_moves_nothing(batch: Batch, score: float) -> None:
    for estimator in (deepgym_grpo, deepgym_rloo):
        before = batch.of(estimator)
        batch.rewards[batch.masked] = score
        assert same(batch.of(estimator), before)
    batch.rewards[batch.masked] = float("nan")
    for estimator in (deepgym_grpo, deepgym_rloo):
        assert same(batch.of(estimator)[batch.judged], batch.of_judged(estimator))


def test_the_numbers_of_one_outage() -> None:
    batch = Batch([0, 0, 0, 0], [1.0, 1.0, 0.0, 0.0], [False, False, False, True])
    assert batch.of(deepgym_grpo)[:, 0].tolist() == pytest.approx(
        [0.57735, 0.57735, -1.154699, 0.0], abs=1e-5
    )
    assert batch.of(VERLS.grpo)[:, 0].tolist() == pytest.approx(
        [0.866024, 0.866024, -0.866024, 0.0], abs=1e-5
    )
    assert batch.of(deepgym_rloo)[:, 0].tolist() == pytest.approx([0.5, 0.5, -1.0, 0.0])
    assert batch.of(VERLS.rloo)[:, 0].tolist() == pytest.approx([2 / 3, 2 / 3, -2 / 3, 0.0])
    plain = batch.of(deepgym_grpo, norm_adv_by_std_in_grpo=False)[:, 0].tolist()
    assert plain == pytest.approx([1 / 3, 1 / 3, -2 / 3, 0.0])


@pytest.mark.parametrize("estimator", [deepgym_grpo, deepgym_rloo])
@pytest.mark.parametrize("score", [1.0, 0.0, 0.5, -1.0])
def test_a_lone_survivor_has_nothing_to_be_compared_with(estimator: Any, score: float) -> None:
    batch = Batch([0, 0, 0, 0, 1], [score, 1.0, 1.0, 1.0, score], [False, True, True, True, False])
    assert not batch.of(estimator).any()


@pytest.mark.parametrize("estimator", [deepgym_grpo, deepgym_rloo])
def test_a_batch_without_a_verdict_is_zeros(estimator: Any) -> None:
    batch = Batch([0, 0, 1, 1], [1.0, 0.0, 1.0, float("nan")], [True] * 4)
    batch.rewards[3] = 0.0
    advantages = batch.of(estimator)
    assert torch.isfinite(advantages).all()
    assert not advantages.any()


@pytest.mark.parametrize("estimator", [deepgym_grpo, deepgym_rloo])
def test_a_whole_group_without_a_verdict_moves_no_other(estimator: Any) -> None:
    both = Batch([0, 0, 0, 1, 1, 1], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [False] * 3 + [True] * 3)
    alone = Batch([0, 0, 0], [1.0, 0.0, 0.0], [False] * 3)
    assert same(both.of(estimator)[:3], alone.of(estimator))
    assert not both.of(estimator)[3:].any()


@pytest.mark.parametrize("estimator", [deepgym_grpo, deepgym_rloo])
def test_a_group_of_equal_scores_has_no_advantage(estimator: Any) -> None:
    advantages = Batch([0] * 4, [1.0] * 4, [False, False, True, False]).of(estimator)
    assert torch.isfinite(advantages).all()
    assert advantages.abs().max() < 1e-5


@pytest.mark.parametrize(
    "index",
    [
        np.array(["a", "b", "a", "b"], dtype=object),
        np.array(["a", "b", "a", "b"]),
        np.array([3, 4, 3, 4]),
        ["a", "b", "a", "b"],
        np.array([("a", 1), ("b", 1), ("a", 1), ("b", 1), None], dtype=object)[:4],
    ],
    ids=["objects", "text", "numbers", "a list", "tuples"],
)
@pytest.mark.parametrize("estimator", [deepgym_grpo, deepgym_rloo])
def test_groups_are_given_in_whatever_array_verl_has(estimator: Any, index: Any) -> None:
    batch = Batch(["a", "b", "a", "b"], [1.0, 1.0, 0.0, 0.5], [False] * 4)
    expected = batch.of(estimator)
    batch.index = index
    assert same(batch.of(estimator), expected)
    assert expected[0, 0] > 0 > expected[2, 0]


def test_nothing_that_is_given_is_changed_and_nothing_is_differentiated() -> None:
    batch = Batch([0, 0, 0], [1.0, 0.0, 0.5], [False, False, True])
    batch.rewards.requires_grad_()
    rewards, mask = batch.rewards.detach().clone(), batch.mask.clone()
    for estimator in (deepgym_grpo, deepgym_rloo):
        advantages, _ = estimator(batch.rewards, batch.mask, batch.index)
        assert not advantages.requires_grad
        assert torch.equal(batch.rewards.detach(), rewards)
        assert torch.equal(batch.mask, mask)


# --- through verl's own way to them ------------------------------------------------------------------------------


def proto(batch: Batch, **tensors: Any) -> Any:
    return DataProto.from_dict(
        tensors={
            "token_level_rewards": batch.rewards.clone(),
            "response_mask": batch.mask.clone(),
            **tensors,
        },
        non_tensors={"uid": batch.index},
    )


OUTAGE = Batch([0, 0, 0, 0, 1, 1], [1.0, 1.0, 0.0, 0.7, 1.0, 0.0], [False, False, False, True, False, False])


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("name", ["deepgym_grpo", "deepgym_rloo"])
def test_they_are_registered_by_importing_verl_and_read_verl_s_configuration(name: str, norm: bool) -> None:
    config = AlgoConfig(adv_estimator=name, norm_adv_by_std_in_grpo=norm)
    given = proto(OUTAGE)
    found = compute_advantage(given, adv_estimator=name, norm_adv_by_std_in_grpo=norm, config=config)
    estimator = {"deepgym_grpo": deepgym_grpo, "deepgym_rloo": deepgym_rloo}[name]
    more = {"norm_adv_by_std_in_grpo": norm} if name == "deepgym_grpo" else {}
    assert same(found.batch["advantages"], OUTAGE.of(estimator, **more))
    assert same(found.batch["returns"], found.batch["advantages"])


@pytest.mark.parametrize("name", ["deepgym_grpo", "deepgym_rloo"])
def test_verl_s_v_1_trainer_has_the_same_of_them(name: str) -> None:
    config = AlgoConfig(adv_estimator=name)
    keys = [f"{uid}_{row}_0" for row, uid in enumerate(OUTAGE.index)]
    found = compute_advantage_for_multi_trajectories(proto(OUTAGE), keys, adv_estimator=name, config=config)
    expected = compute_advantage(proto(OUTAGE), adv_estimator=name, config=config)
    assert same(found.batch["advantages"], expected.batch["advantages"])


@pytest.mark.parametrize("norm", [True, False])
def test_the_patch_has_grpo_leave_them_out_under_both_trainers(norm: bool, unpatched: None) -> None:
    config = AlgoConfig(adv_estimator="grpo", norm_adv_by_std_in_grpo=norm)
    keys = [f"{uid}_{row}_0" for row, uid in enumerate(OUTAGE.index)]

    def both() -> list[Any]:
        more = {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": norm, "config": config}
        legacy = compute_advantage(proto(OUTAGE), **more).batch["advantages"]
        v1 = compute_advantage_for_multi_trajectories(proto(OUTAGE), keys, **more).batch["advantages"]
        return [legacy, v1]

    polluted = OUTAGE.of(VERLS.grpo, norm_adv_by_std_in_grpo=norm)
    judged = OUTAGE.of(deepgym_grpo, norm_adv_by_std_in_grpo=norm)
    assert not same(polluted, judged)
    assert all(same(each, polluted) for each in both())
    patch_grpo()
    patch_grpo()
    assert all(same(each, judged) for each in both())
    assert core_algos.get_adv_estimator_fn("grpo") is deepgym_grpo


_PATCHED = """
import warnings
warnings.simplefilter("ignore")
from verl.trainer.ppo import core_algos
functions = core_algos.compute_grpo_outcome_advantage, core_algos.get_adv_estimator_fn("grpo")
print({each.__module__ for each in functions} == {"%s"}, "deepgym_grpo" in core_algos.ADV_ESTIMATOR_REGISTRY)
"""


@pytest.mark.parametrize(
    ("value", "module"), [("1", "deepgym_verl.advantages"), ("0", "verl.trainer.ppo.core_algos")]
)
def test_the_variable_patches_grpo_wherever_verl_is_imported(
    value: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATCH, value)
    found = subprocess.run(
        [sys.executable, "-c", _PATCHED % module], capture_output=True, text=True, timeout=300
    )
    assert found.stdout.splitlines()[-1:] == ["True True"], found.stderr


@pytest.mark.parametrize("name", ["deepgym_grpo", "deepgym_rloo"])
def test_a_kl_penalty_in_the_reward_is_part_of_the_judged_rows_scores(name: str) -> None:
    batch = Batch([0, 0, 0, 0], [1.0, 1.0, 0.0, 0.9], [False, False, False, True], [5, 3, 4, 5])
    torch.manual_seed(0)
    old, ref = torch.randn(4, LENGTH), torch.randn(4, LENGTH)
    more = {"token_level_scores": batch.rewards.clone(), "old_log_probs": old, "ref_log_prob": ref}
    control = core_algos.FixedKLController(0.1)
    penalized, _ = apply_kl_penalty(proto(batch, **more), kl_ctrl=control, kl_penalty="kl")
    rewards = penalized.batch["token_level_rewards"]
    assert (rewards[:3] != batch.rewards[:3]).sum() > 6
    config = AlgoConfig(adv_estimator=name)
    found = compute_advantage(penalized, adv_estimator=name, config=config).batch["advantages"]
    batch.rewards = rewards
    theirs = batch.of_judged(VERLS.grpo if name == "deepgym_grpo" else VERLS.rloo)
    assert same(found[:3], theirs)
    assert not found[3].any()
