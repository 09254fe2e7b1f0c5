"""OpenRLHF's own command trains, on the CPU, while a fifth of the samples is lost: what it learns is what was judged.

What stands for vLLM, flash-attn and CUDA is in `training/shims`; everything else is the real thing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from deepgym import AsyncDeepGym
from deepgym.extract import extract_code
from deepgym_openrlhf import create_app

for _needed in ("deepspeed", "openrlhf", "ray", "torch", "transformers"):
    if importlib.util.find_spec(_needed) is None:
        pytest.skip(f"{_needed} isn't installed", allow_module_level=True)

pytestmark = pytest.mark.local_sandbox

HERE = Path(__file__).parent
# Processes of the trainer's import these too, by these names.
sys.path.append(str(HERE / "training"))
lab: Any = importlib.import_module("openrlhf_lab")
task: Any = importlib.import_module("openrlhf_task")
sys.path.remove(str(HERE / "training"))

DROPPED = -1_000_000.0
# A policy that has learnt everything is no reason to drop its groups.
FILTER = ("--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0", "1.1")


@dataclass
class Trained:
    run: Any
    samples: list[Any]
    counted: Any = None
    """The endpoint's own counters."""
    struck: int = 0

    @property
    def lost(self) -> list[Any]:
        return [sample for sample in self.samples if not sample.judged]

    @property
    def groups(self) -> list[list[Any]]:
        found: list[list[Any]] = lab.groups(self.samples)
        return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    made = subprocess.run(
        [sys.executable, str(HERE.parent / "tiny_models.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return str(folder)


def over_http(model: str, folder: Path, score: str, flags: Sequence[str] = (), **options: Any) -> Trained:
    async def trained() -> Trained:
        provider = task.outages(task.SEED)
        async with AsyncDeepGym(provider=provider) as dg:
            app = create_app(task.SHARE, dg, infra_failure_score=score, group_size=lab.GROUP)
            run, samples = await lab.serve_and_train(app, model, folder, flags, **options)
        return Trained(run, samples, app.state.endpoint.grading.tally, provider.struck.total())

    return asyncio.run(trained())


@pytest.fixture(scope="module")
def means(model: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return over_http(model, tmp_path_factory.mktemp("means"), "group_mean")


@pytest.fixture(scope="module")
def agent(model: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(*asyncio.run(lab.train_with_agent(model, tmp_path_factory.mktemp("agent"))))


@pytest.fixture(scope="module")
def filtered(model: str, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return over_http(model, tmp_path_factory.mktemp("filter"), "drop_group", FILTER, rows=2 * lab.ROWS)


@pytest.fixture(params=["means", "agent", "filtered"])
def trained(request: pytest.FixtureRequest) -> Trained:
    found: Trained = request.getfixturevalue(request.param)
    return found


def steps(trained: Trained, groups: list[list[Any]]) -> list[tuple[Any, list[Any]]]:
    """What the trainer logged of each step, beside the step's samples."""
    assert len(trained.run.steps) == -(-len(groups) // lab.PROMPTS)
    parts = [groups[at : at + lab.PROMPTS] for at in range(0, len(groups), lab.PROMPTS)]
    return [
        (step, [sample for group in part for sample in group])
        for step, part in zip(trained.run.steps, parts, strict=True)
    ]


def kept(groups: list[list[Any]]) -> list[list[Any]]:
    """What dynamic filtering keeps."""
    return [group for group in groups if 0 < fmean(sample.score for sample in group) < 1.1]


def test_the_run_finishes_and_leaves_no_process_behind(trained: Trained) -> None:
    assert trained.run.status == 0, trained.run.said[-8000:]
    assert trained.run.left == []


def test_the_policy_learns(trained: Trained) -> None:
    curve = trained.run.curve("rollout/reward_mean")
    assert len(curve) >= 10
    assert fmean(curve[:2]) < 0.55
    assert fmean(curve[-3:]) > fmean(curve[:2]) + 0.2


def test_a_fifth_of_the_samples_is_lost(trained: Trained) -> None:
    assert 0.13 < len(trained.lost) / len(trained.samples) < 0.27
    assert {sample.logs["deepgym_verdict"] for sample in trained.lost} == {0.0}


def test_what_was_judged_gets_what_its_text_is_worth(trained: Trained) -> None:
    for sample in trained.samples:
        if sample.judged:
            assert sample.reward == sample.score == pytest.approx(task.share(extract_code(sample.text)))


def test_what_was_lost_gets_its_siblings_mean_and_never_an_outages_0(trained: Trained) -> None:
    alone = 0
    for group in trained.groups:
        judged = [sample.reward for sample in group if sample.judged]
        for sample in group:
            if not sample.judged and judged:
                assert sample.reward == pytest.approx(fmean(judged))
            elif not sample.judged:
                alone += 1
                assert 0.1 < sample.reward < 0.95
    # Of a group of four none is judged once in 625 times.
    assert alone < len(trained.lost) / 5


@pytest.mark.parametrize("name", ["means", "agent"])
def test_the_trainer_logs_what_it_was_told(name: str, request: pytest.FixtureRequest) -> None:
    trained = request.getfixturevalue(name)
    assert len(trained.samples) == lab.GROUP * lab.ROWS
    for step, samples in steps(trained, trained.groups):
        told = {
            "reward": fmean(sample.reward for sample in samples),
            "score": fmean(sample.score for sample in samples),
            "no_verdict": fmean(not sample.judged for sample in samples),
            "deepgym_verdict": fmean(sample.judged for sample in samples),
            "deepgym_score": fmean(sample.judged * sample.reward for sample in samples),
        }
        assert {key: step[key] for key in told} == pytest.approx(told, abs=1e-5)
        assert step["rollout/reward_mean"] == pytest.approx(told["reward"], abs=1e-5)


@pytest.mark.parametrize("name", ["means", "filtered"])
def test_the_endpoint_counts_what_it_told(name: str, request: pytest.FixtureRequest) -> None:
    trained = request.getfixturevalue(name)
    counted = trained.counted
    assert counted.requests == counted.samples == len(trained.samples)
    assert counted.judged == len(trained.samples) - len(trained.lost)
    assert dict(counted.none) == {"network_error": len(trained.lost)}
    # Each sample whose grading failed was graded once more, and of those some failed again.
    assert trained.struck == counted.again + len(trained.lost)
    assert counted.again > 1.5 * len(trained.lost)


def test_of_a_lost_sample_the_agent_file_leaves_one_token(agent: Trained) -> None:
    for sample in agent.samples:
        on, response = sample.tokens
        assert on == (response if sample.judged else 1)


def test_groups_with_a_lost_sample_are_filtered_out(filtered: Trained) -> None:
    groups = filtered.groups
    trained_on = kept(groups)
    assert {sample.score for sample in filtered.lost} == {DROPPED}
    assert all(sample.judged for group in trained_on for sample in group)
    for step, samples in steps(filtered, trained_on):
        assert step["no_verdict"] == 0.0
        assert step["rollout/num_samples"] == len(samples)
        assert step["rollout/reward_mean"] == pytest.approx(fmean(s.reward for s in samples), abs=1e-5)
