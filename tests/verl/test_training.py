"""Whole runs of `python -m verl.trainer.main_ppo` on the CPU, with a judge that fails when it is told to.

What stands for an accelerator and for the server of the model is in `training`; the sandbox that grades is
real. A step of each run is a row of the tables: nothing is lost, one sample, a group, all but one of it, an
agent's session, everything. The rest of the matrix is in `test_training_full`.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("verl")
pytestmark = pytest.mark.local_sandbox

# Processes of the trainer's import these too, by these names.
_FOLDER = str(Path(__file__).with_name("training"))
sys.path.append(_FOLDER)
lab: Any = importlib.import_module("verl_lab")
plan: Any = importlib.import_module("verl_plan")
cells: Any = importlib.import_module("verl_cells")
sys.path.remove(_FOLDER)

#: Before 0.9.1 a validation can't leave a value out, so that a lost sample is a 0 in it beside its `error`.
ZEROS = version("verl") == "0.9.0"
#: What the answer that takes the largest coins first is worth.
HALF = 0.44
OURS = ("algorithm.adv_estimator=deepgym_grpo", "data.max_response_length=384")
ALL = ("sync", "legacy", "colocate_async")
#: The actor's gradient norm by step: the same weights, data and losses for `sync` and `legacy`.
GRADIENTS = {
    "sync": (0.819259, 0.876320, 1.367200, 0.459804, 4.940835),
    "legacy": (0.819259, 0.876320, 1.367200, 0.459804, 4.940835, 0.0, 0.542346),
    "colocate_async": (0.549632, 0.568473, 0.791689, 0.038315),
}


@pytest.fixture(scope="module")
def sync(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sync") / "run"
    return lab.train(tiny_model, folder, [*lab.SYNC, *OURS], cells.TRAINING, cells.VALIDATION)


@pytest.fixture(scope="module")
def legacy(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("legacy") / "run"
    return lab.train(tiny_model, folder, [*lab.LEGACY, *OURS], cells.TRAINING, cells.VALIDATION)


@pytest.fixture(scope="module")
def colocate_async(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("async") / "run"
    flags = [*lab.ASYNC, *OURS, f"trainer.total_training_steps={len(cells.ASYNC_TRAINED)}"]
    return lab.train(tiny_model, folder, flags, cells.ASYNC_TRAINING, cells.VALIDATION)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


each = pytest.mark.parametrize("run", ALL, indirect=True)


def steps(name: str) -> list[list[Any]]:
    """The prompts that each step of a run trains on."""
    prompts = cells.ASYNC_TRAINING if name == "colocate_async" else cells.TRAINING
    named = {prompt.name: prompt for prompt in prompts}
    trained = cells.ASYNC_TRAINED if name == "colocate_async" else cells.TRAINED
    # `sync` stops at the step of which everything is lost.
    return [[named[each] for each in step] for step in trained[: cells.LAST if name == "sync" else None]]


def judged(prompts: list[Any]) -> list[float]:
    found = [score for prompt in prompts for score in cells.scores(prompt, HALF)]
    return [score for score in found if score is not None]


def expected(prompt: Any, masked: bool) -> list[Any]:
    """Score, advantage and whether it is trained on, for each row of a prompt."""
    found = cells.scores(prompt, HALF)
    rows = zip(found, cells.advantages(found), strict=True)
    return [(score or 0.0, one, score is not None) for score, one in rows if masked or score is not None]


@pytest.mark.parametrize("name", ALL)
def test_each_row_gets_the_advantage_that_what_was_judged_alone_gives(
    name: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(name)
    for rows, prompts in zip(run.advantages, steps(name), strict=True):
        assert len(rows) == 2 * plan.GROUP
        wanted = [expected(prompt, masked=name == "legacy") for prompt in prompts]
        found = [
            [(row["score"], row["advantage"], row["tokens"] > 0) for row in group]
            for group in lab.groups(rows)
        ]
        wanted = [sorted(group) for group in wanted if group]
        assert [sorted(group) for group in found] == [
            [pytest.approx(row, abs=1e-4) for row in group] for group in wanted
        ]
        for filler in rows:
            if filler["uid"].startswith("pad"):
                assert (filler["score"], filler["tokens"], filler["advantage"]) == (0.0, 0, 0.0)


@pytest.mark.parametrize("name", ALL)
def test_verl_trains_on_the_rows_that_were_judged(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    for number, prompts in enumerate(steps(name), 1):
        found = run.trained[number]
        assert len(found) == 2 * plan.GROUP
        rows = [
            prompt.name
            for prompt in prompts
            for score in cells.scores(prompt, HALF)
            if name == "legacy" or score is not None
        ]
        assert lab.names(found) == sorted(rows)
        # The legacy trainer's rows have what DeepGym adds, too.
        if name == "legacy":
            lost = sum(score is None for prompt in prompts for score in cells.scores(prompt, HALF))
            assert sum(row["error"] for row in found) == lost
            assert all(row["score"] == row["acc"] == 0.0 for row in found if row["error"])
            faults = sum(answer == plan.DIED for prompt in prompts for answer in prompt.answers)
            assert sum(row["model_fault"] for row in found) == faults


@pytest.mark.parametrize("name", ALL)
def test_verls_own_metrics_show_what_was_judged(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    for number, prompts in enumerate(steps(name), 1):
        scores = judged(prompts)
        # A masked row is a 0 in the mean of the legacy trainer, which nothing can leave out of it.
        rows = 2 * plan.GROUP if name == "legacy" else len(scores)
        logged = run.logged[number]
        assert logged["critic/score/mean"] == pytest.approx(sum(scores) / rows, abs=1e-5)
        assert logged["actor/grad_norm"] == pytest.approx(GRADIENTS[name][number - 1], rel=1e-3)
        if not scores:
            # verl has no number for nothing; the step has changed no weight.
            assert logged["actor/pg_loss"] is logged["critic/advantages/max"] is None
            continue
        every = [one for prompt in prompts for _, one, _ in expected(prompt, masked=True)]
        assert logged["critic/advantages/max"] == pytest.approx(max(every), abs=1e-4)
        assert logged["critic/advantages/min"] == pytest.approx(min(every), abs=1e-4)


def test_an_outage_moves_no_gradient_under_the_legacy_trainer_either(sync: Any, legacy: Any) -> None:
    """To the bit where the rows stand in the same places; else a sum has another order."""
    norms = [[run.logged[step]["actor/grad_norm"] for step in range(1, 6)] for run in (sync, legacy)]
    assert norms[0][:3] == norms[1][:3]
    assert norms[0][3:] == pytest.approx(norms[1][3:], rel=1e-6)


def test_the_loops_have_nothing_to_warn_of_where_the_estimator_leaves_masked_rows_out(legacy: Any) -> None:
    assert "counts masked samples" not in legacy.said


def test_the_async_trainer_replaces_the_groups_of_which_nothing_was_judged(colocate_async: Any) -> None:
    key = "training/rollout_failure/evicted_samples"
    assert [colocate_async.logged[step].get(key) for step in range(1, 5)] == [None, None, 1.0, 2.0]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("source", ["coin_change", "number"])
def test_a_validation_counts_what_was_lost_and_nothing_else_moves(
    name: str, source: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(name)
    assert sorted(run.logged) == list(range(len(steps(name)) + 1))
    for number, logged in run.logged.items():
        scores = cells.VALIDATED[number % len(cells.VALIDATED)][source]
        found = [score for score in scores if score is not None]
        aux, core = f"val-aux/deepgym/{source}", f"val-core/deepgym/{source}"
        assert logged[f"{aux}/error/mean@4"] == 1 - len(found) / 4
        zeros = ZEROS or name == "legacy"
        # verl's core metric is `reward` where nothing has an `acc`.
        reward = f"{aux if found or zeros else core}/reward/mean@4"
        assert logged[reward] == sum(found) / 4
        if zeros:
            assert logged[f"{core}/acc/mean@4"] == logged[f"{aux}/score/mean@4"] == sum(found) / 4
        elif found:
            assert logged[f"{core}/acc/mean@4"] == sum(found) / 4
            for judged in ("score", "acc_success_only"):
                assert logged[f"{aux}/{judged}/mean@{len(found)}"] == pytest.approx(fmean(found))
        else:
            assert not any(f"{source}/score/" in key or f"{source}/acc" in key for key in logged)


@pytest.mark.parametrize("name", ALL)
def test_a_lost_sample_keeps_its_row_in_a_validation(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    for number, rows in run.validated.items():
        scores = cells.VALIDATED[number % len(cells.VALIDATED)]
        assert lab.names(rows) == ["v1"] * 4 + ["v2"] * 4
        lost = sum(score is None for group in scores.values() for score in group)
        assert sum(row["error"] for row in rows) == lost
        for row in rows:
            if row["error"]:
                assert row["acc"] == row["score"] == (0.0 if ZEROS or name == "legacy" else None)
            else:
                assert row["acc"] == row["passed"] == row["score"]


@each
def test_no_session_stays_open(run: Any) -> None:
    assert len(run.sessions) > 50
    assert run.open_sessions == set()


@each
def test_nothing_is_left_behind(run: Any) -> None:
    assert run.left == []


@pytest.mark.parametrize("run", ["legacy", "colocate_async"], indirect=True)
def test_a_run_goes_on_after_a_batch_of_which_nothing_was_judged(run: Any) -> None:
    assert run.status == 0, run.said[-8000:]


def test_the_sync_trainer_stops_at_such_a_batch_and_says_what_would_do(sync: Any) -> None:
    assert sync.status == 1
    assert "selected terminal groups with no materializable trajectories" in sync.said, sync.said[-8000:]
    assert "Enable trainer.v1.sampler.sync_refill_failed_groups to replace failed groups" in sync.said
    assert len(sync.trained) == cells.LAST
