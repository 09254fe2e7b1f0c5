"""Real training, judged by the local sandbox while its runs fail: what a policy learns is what was judged.

The numbers are those of fixed seeds, with margins; `learning/experiments.py` tries others.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

pytest.importorskip("trl")

_spec = importlib.util.spec_from_file_location(
    "deepgym_trl_experiments", Path(__file__).with_name("learning") / "experiments.py"
)
assert _spec is not None
assert _spec.loader is not None
experiments: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = experiments
_spec.loader.exec_module(experiments)

pytestmark = pytest.mark.local_sandbox

Train = Callable[..., Any]
SEED = 1


@pytest.fixture(scope="module")
def train(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Train:
    def trained(task: str, **options: Any) -> Any:
        return experiments.train(tiny_model, tmp_path_factory.mktemp("run"), task, seed=SEED, **options)

    return trained


@pytest.fixture(scope="module")
def undisturbed(train: Train) -> Any:
    """Training without a single outage."""
    return train("share", provider=experiments.LocalProvider())


def end(curve: list[float]) -> float:
    return mean(curve[-5:])


def test_a_policy_learns_from_the_local_sandbox(undisturbed: Any) -> None:
    assert undisturbed.rewards == undisturbed.scores
    assert undisturbed.curve[0] < 0.5
    assert end(undisturbed.curve) > 0.85


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_a_policy_learns_as_well_when_a_fifth_of_its_runs_fail_on_our_side(
    train: Train, undisturbed: Any, kind: str
) -> None:
    found = train("share", provider=experiments.outages(SEED), kind=kind)

    assert found.curve[0] == undisturbed.curve[0]
    assert end(found.curve) > 0.8
    assert end(found.curve) > end(undisturbed.curve) - 0.12

    rows = sum(map(len, found.rewards))
    assert 0.15 * rows < found.unjudged < 0.25 * rows
    assert found.unjudged == found.struck
    for rewards, scores in zip(found.rewards, found.scores, strict=True):
        assert all(reward in (None, score) for reward, score in zip(rewards, scores, strict=True))
    for rewards, line in zip(found.rewards, found.logs, strict=True):
        judged = [reward for reward in rewards if reward is not None]
        assert line["deepgym/verdict_rate"] == pytest.approx(len(judged) / len(rewards))
        assert line["reward"] == pytest.approx(mean(judged), abs=1e-6)
        assert line["rewards/deepgym/mean"] == pytest.approx(mean(judged), abs=1e-6)
        assert line["deepgym/judged_mean_score"] == pytest.approx(mean(judged), abs=1e-6)


def test_what_outages_hit_is_learnt_all_the_same_and_unlearnt_if_they_are_written_as_0(train: Train) -> None:
    """Of the long answers, which are worth more, 60 % lose their verdict."""
    masked = train("long", provider=experiments.losing_long_answers(SEED))
    zeroed = train("long", provider=experiments.losing_long_answers(SEED), naive=True)

    # Both began with the same policy, whose first batch met the same outages.
    assert masked.texts[0] == zeroed.texts[0]
    assert masked.rewards[0] == zeroed.rewards[0]
    begin = masked.long[0]
    assert 0.3 < begin < 0.8

    assert end(masked.long) > 0.9 > begin + 0.1
    assert end(zeroed.long) < 0.3 < begin
    for found in (masked, zeroed):
        assert found.unjudged == found.struck > 100
        for rewards, texts in zip(found.rewards, found.texts, strict=True):
            lost = [
                len(text) > experiments.LONG
                for text, reward in zip(texts, rewards, strict=True)
                if reward is None
            ]
            assert all(lost)
