"""Whole runs in which the policy learns, from the rewards of the real sandbox, while a fifth of its runs is lost.

What the policy says is sampled from its own weights, and its answers are graded as they come.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.local_sandbox

_FOLDER = str(Path(__file__).with_name("training"))
sys.path.append(_FOLDER)
lab: Any = importlib.import_module("verl_lab")
plan: Any = importlib.import_module("verl_plan")
sys.path.remove(_FOLDER)

LOST = 0.2
#: Prompts of a step, and steps.
PROMPTS, STEPS = 8, 12
FLAGS = (
    "algorithm.adv_estimator=deepgym_grpo",
    "actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_single_turn",
    "data.max_response_length=16",
    f"data.train_batch_size={PROMPTS}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
    f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={PROMPTS * 4}",
    f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={PROMPTS * 4}",
    "actor_rollout_ref.actor.optim.lr=4e-2",
)


@pytest.fixture(scope="module", params=["SYNC", "LEGACY"])
def trained(request: pytest.FixtureRequest, tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    prompts = [plan.Prompt(f"row {row}", (), None, plan.SHARE) for row in range(PROMPTS * STEPS)]
    folder = tmp_path_factory.mktemp("learning") / "run"
    flags = [*getattr(lab, request.param), *FLAGS]
    return lab.train(tiny_model, folder, flags, prompts, scripted=False, lost=LOST)


def judged(rows: list[Any]) -> list[float]:
    return [row["score"] for row in rows if row["tokens"] > 0]


def test_the_policy_learns_while_a_fifth_of_its_runs_is_lost(trained: Any) -> None:
    assert trained.status == 0, trained.said[-8000:]
    assert len(trained.advantages) == STEPS
    curve = [fmean(judged(rows)) for rows in trained.advantages]
    assert fmean(curve[:2]) < 0.55
    assert fmean(curve[-3:]) > fmean(curve[:2]) + 0.2
    samples = STEPS * PROMPTS * plan.GROUP
    kept = sum(len(judged(rows)) for rows in trained.advantages)
    assert 0.13 < 1 - kept / samples < 0.27


def test_what_was_lost_is_trained_on_nowhere(trained: Any) -> None:
    for rows in trained.advantages:
        lost = [row for row in rows if row["tokens"] == 0]
        assert lost
        assert {row["advantage"] for row in lost} == {0.0}
