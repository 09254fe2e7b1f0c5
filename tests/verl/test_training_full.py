"""The rest of the matrix of `test_training`: whole runs, one for each setting. `nox -s full_verl` runs them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.local_sandbox

_FOLDER = str(Path(__file__).with_name("training"))
sys.path.append(_FOLDER)
lab: Any = importlib.import_module("verl_lab")
plan: Any = importlib.import_module("verl_plan")
cells: Any = importlib.import_module("verl_cells")
sys.path.remove(_FOLDER)

R, W, L = plan.RIGHT, plan.WRONG, plan.LOST
Train = Callable[..., Any]

#: verl's own sampler, which alone replaces and filters groups.
PLAIN_SYNC = ("trainer.v1.trainer_mode=sync",)
REFILL = (*PLAIN_SYNC, "trainer.v1.sampler.sync_refill_failed_groups=True", "data.gen_batch_size=1")
DAPO = (*PLAIN_SYNC, "algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc")


@pytest.fixture
def train(tiny_model: str, tmp_path: Path) -> Train:
    def run(
        flags: Sequence[str],
        training: Sequence[Any],
        validation: Sequence[Any] = (),
        estimator: str = "deepgym_grpo",
        **options: Any,
    ) -> Any:
        given = [*flags, f"algorithm.adv_estimator={estimator}", "data.max_response_length=384"]
        found = lab.train(tiny_model, tmp_path / "run", given, training, validation, **options)
        assert found.left == []
        assert found.open_sessions == set()
        return found

    return run


def prompts(*groups: Sequence[Any], agent: str = "deepgym_single_turn") -> list[Any]:
    """Prompts `p00`, `p01` and so on, with these answers."""
    return [plan.Prompt(f"p{number:02}", answers, agent) for number, answers in enumerate(groups)]


def scored(*groups: Sequence[Any]) -> list[Any]:
    """The same, graded by verl's reward loop with `compute_score`."""
    return prompts(*groups, agent="single_turn_agent")


def advantages(run: Any, step: int = 1) -> list[list[float]]:
    return [[row["advantage"] for row in group] for group in lab.groups(run.advantages[step - 1])]


def near(*groups: Sequence[float]) -> list[Any]:
    return [pytest.approx(list(group), abs=1e-4) for group in groups]


def survivors(*scores: float | None) -> list[float]:
    """The advantages of what was judged."""
    return [one for score, one in zip(scores, cells.advantages(scores), strict=True) if score is not None]


def evicted(run: Any, step: int) -> Any:
    return run.logged[step].get("training/rollout_failure/evicted_samples")


# compute_score, in verl's reward loop


def test_under_v1_sync_compute_score_drops_the_sample_alone(train: Train) -> None:
    training = scored((R, W, R, W), (R, R, W, L), (R, W, W, W), (L, L, L, L), (R, W, R, W), (R, W, W, W))
    lost_last = plan.Prompt("v", (R, W, R, W, R, W, L, R, R, W, R, W, L, L, L, L), "single_turn_agent")
    run = train(lab.SYNC, training, [lost_last])

    assert advantages(run, 1) == near(survivors(1, 0, 1, 0), survivors(1, 1, 0, None))
    assert advantages(run, 2) == near(survivors(1, 0, 0, 0))
    assert "NoVerdictError" in run.said

    # A dropped sample has no row in a validation: `error` doesn't show it. It counts as wrong since 0.9.1.
    found = {
        key.partition("/coin_change/")[2]: value
        for key, value in run.logged[1].items()
        if "/coin_change/" in key
    }
    assert len(run.validated[1]) == 3
    if version("verl") == "0.9.0":
        assert found["acc/mean@3"] == pytest.approx(2 / 3)
    else:
        assert found["acc/mean@4"] == 0.5
        assert found["acc_success_only/mean@3"] == pytest.approx(2 / 3)
    assert found["error/mean@3"] == 0.0

    # And verl can't make a validation of nothing.
    assert run.status == 1
    assert "Received an empty list as keys" in run.said


def test_under_v1_colocate_async_compute_score_drops_the_group(train: Train) -> None:
    flags = (*lab.ASYNC, "trainer.total_training_steps=1")
    run = train(flags, scored((R, W, R, W), (R, R, W, L), (R, W, W, W)))
    assert run.status == 0, run.said[-8000:]
    assert evicted(run, 1) == 1.0
    assert lab.names(run.trained[1]) == ["p00"] * 4 + ["p02"] * 4


def test_under_legacy_compute_score_stops_the_run_and_names_the_loop_to_use_instead(train: Train) -> None:
    run = train(lab.LEGACY, scored((R, W, R, W), (R, R, W, L), (R, W, R, W), (R, W, R, W)))
    assert run.status == 1
    assert run.trained == {}
    last = run.said[-8000:]
    assert "NoVerdictError" in last
    assert "actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_single_turn" in last


def test_a_manager_that_turns_an_outage_into_0_is_refused(train: Train) -> None:
    flags = (*lab.LEGACY, "reward.reward_manager.name=rate_limited")
    run = train(flags, scored((R, W, R, W), (R, R, W, L)))
    assert run.status == 1
    assert run.trained == {}
    assert (
        "reward.reward_manager.name=rate_limited turns a run without a verdict into a reward of 0.0"
        in run.said
    )


# Estimators


ONE_LOST = ((R, W, R, W), (R, R, W, L))
WARNING = "counts masked samples"


def test_verls_own_grpo_lets_an_outage_into_the_baseline_under_legacy_and_the_loop_says_so(
    train: Train,
) -> None:
    run = train(lab.LEGACY, prompts(*ONE_LOST), estimator="grpo")
    assert run.status == 0, run.said[-8000:]
    assert advantages(run)[1] == pytest.approx([0.866, 0.866, -0.866, 0], abs=1e-3)
    assert run.said.count(WARNING) == 1


def test_with_the_patch_verls_own_grpo_does_not(train: Train) -> None:
    patched = {"DEEPGYM_VERL_PATCH_GRPO": "1"}
    run = train(lab.LEGACY, prompts(*ONE_LOST), estimator="grpo", environment=patched)
    assert run.status == 0, run.said[-8000:]
    assert advantages(run) == near(cells.advantages([1, 0, 1, 0]), cells.advantages([1, 1, 0, None]))
    assert WARNING not in run.said


@pytest.mark.parametrize("trainer", ["SYNC", "LEGACY"])
def test_rloo_leaves_out_what_was_lost(train: Train, trainer: str) -> None:
    run = train(getattr(lab, trainer), prompts(*ONE_LOST), estimator="deepgym_rloo")
    assert run.status == 0, run.said[-8000:]
    lost = [0.0] if trainer == "LEGACY" else []
    assert advantages(run) == near([2 / 3, -2 / 3, 2 / 3, -2 / 3], [0.5, 0.5, -1, *lost])


def test_verls_own_grpo_gives_a_lone_survivor_its_raw_score_and_ours_nothing(
    train: Train,
) -> None:
    run = train(lab.SYNC, prompts((R, W, R, W), (L, L, L, R)), estimator="grpo")
    assert run.status == 0, run.said[-8000:]
    assert advantages(run)[1] == pytest.approx([1.0], abs=1e-4)
    assert survivors(None, None, None, 1) == [0.0]


# Replacing and filtering groups, and the option `lost`


def test_v1_sync_replaces_lost_groups_if_it_is_told_to(train: Train) -> None:
    groups = (
        (R, W, R, W),
        (L, L, L, L),
        (R, R, W, L),
        (L, L, L, L),
        (L, L, L, L),
        (R, W, W, W),
        (R, R, R, W),
    )
    run = train((*REFILL, "trainer.total_training_steps=2"), prompts(*groups))
    assert run.status == 0, run.said[-8000:]
    assert [evicted(run, step) for step in (1, 2)] == [1.0, 2.0]
    assert lab.names(run.trained[1]) == ["p00"] * 4 + ["p02"] * 3
    assert lab.names(run.trained[2]) == ["p05"] * 4 + ["p06"] * 4


def test_a_lost_group_does_not_end_dapo(train: Train) -> None:
    run = train(DAPO, prompts((R, W, R, L), (L, L, L, L), (R, W, W, W), (R, R, R, W)))
    assert run.status == 0, run.said[-8000:]
    assert lab.names(run.trained[1]) == ["p00"] * 3


def test_with_lost_empty_it_does(train: Train) -> None:
    run = train(DAPO, prompts((R, W, R, L), (L, L, L, L)), rewards={"lost": "empty"})
    assert run.status == 1
    assert "Finished groups are missing DAPO metric" in run.said


def test_lost_empty_drops_the_sample_under_v1_sync_as_well(train: Train) -> None:
    groups = ((R, W, R, W), (R, R, W, L), (R, W, W, W), (L, L, L, L), (L, L, L, L), (L, L, L, L))
    run = train(lab.SYNC, prompts(*groups), rewards={"lost": "empty"})
    assert advantages(run, 1) == near(survivors(1, 0, 1, 0), survivors(1, 1, 0, None))
    assert advantages(run, 2) == near(survivors(1, 0, 0, 0))
    assert run.status == 1
    assert "no materializable trajectories" in run.said


def test_lost_mask_keeps_a_masked_row_under_v1_and_survives_a_batch_of_them(train: Train) -> None:
    groups = (*ONE_LOST, (L, L, L, L), (L, L, L, L), (R, W, W, W), (R, W, R, W))
    run = train(lab.SYNC, prompts(*groups), rewards={"lost": "mask"})
    assert run.status == 0, run.said[-8000:]
    assert advantages(run, 1) == near(cells.advantages([1, 0, 1, 0]), cells.advantages([1, 1, 0, None]))
    assert advantages(run, 2) == [[0.0] * 4] * 2
    assert run.logged[2]["actor/grad_norm"] == 0.0
    assert run.logged[3]["actor/grad_norm"] > 0.0


def test_lost_raise_costs_an_async_trainer_the_group(train: Train) -> None:
    flags = (*lab.ASYNC, "trainer.total_training_steps=1")
    run = train(flags, prompts(*ONE_LOST, (R, W, W, W)), rewards={"lost": "raise"})
    assert run.status == 0, run.said[-8000:]
    assert evicted(run, 1) == 1.0
    assert lab.names(run.trained[1]) == ["p00"] * 4 + ["p02"] * 4
