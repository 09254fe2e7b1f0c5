"""``group_mean``: what stands in for a verdict, and that it weighs nothing."""

from __future__ import annotations

import math
import statistics

import pytest

from deepgym_axolotl.groups import group_mean
from deepgym_axolotl.settings import ConfigError

PROMPTS = ["a"] * 4 + ["b"] * 4


def advantages(rewards: list[float]) -> list[float]:
    """What Axolotl's asynchronous trainer computes, in float64."""
    mean, deviation = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(reward - mean) / (deviation + 1e-4) for reward in rewards]


def test_a_row_without_a_verdict_gets_the_mean_of_its_judged_siblings() -> None:
    rewards = [1.0, 0.0, None, 0.5, None, None, 1.0, 0.25]
    assert group_mean(rewards, PROMPTS, 4) == [1.0, 0.0, 0.5, 0.5, 0.625, 0.625, 1.0, 0.25]


def test_such_a_row_has_no_advantage_and_the_siblings_keep_theirs_but_for_one_factor() -> None:
    had = advantages(group_mean([1.0, 0.0, None, 0.5], ["a"] * 4, 4))
    hadnt = advantages([1.0, 0.0, 0.5])
    assert had[2] == 0.0
    factor = math.sqrt((4 - 1) / (3 - 1))
    assert [had[0], had[1], had[3]] == pytest.approx([factor * value for value in hadnt], rel=1e-3)


def test_a_group_in_which_nobody_was_judged_has_no_advantages_at_all() -> None:
    filled = group_mean([None] * 4 + [1.0, None, 0.0, 0.0], PROMPTS, 4)
    assert advantages(filled[:4]) == [0.0] * 4
    assert filled[5] == pytest.approx(1 / 3)


def test_a_group_with_one_survivor_has_none_either() -> None:
    assert advantages(group_mean([None, None, 0.75, None], ["a"] * 4, 4)) == [0.0] * 4


def test_judged_rows_are_never_changed() -> None:
    rewards = [0.1, 0.2, 0.3, 0.7]
    assert group_mean(rewards, ["a"] * 4, 4) == rewards
    assert group_mean([], [], 4) == []


@pytest.mark.parametrize("prompts", [["a"] * 3 + ["b"] * 5, ["a"] * 6, ["a", "a", "b", "b"] * 2])
def test_rows_that_are_no_whole_groups_are_refused(prompts: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"needs whole groups, but this process was given \d rows"):
        group_mean([None] * len(prompts), prompts, 4)


def test_an_evaluation_may_have_smaller_groups() -> None:
    assert group_mean([None, 0.5, None], ["a", "b", "c"], 4, strict=False) == [0.5, 0.5, 0.5]
