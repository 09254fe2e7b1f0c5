from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym.contract.groups import group_advantages, group_seed, judged_mean_fill

rewards = st.lists(st.none() | st.floats(0, 1), max_size=12)


def test_the_baseline_is_that_of_the_judged_members() -> None:
    first, second, third, fourth = group_advantages([1.0, 1.0, 0.0, None])
    assert first == second == pytest.approx(1 / math.sqrt(2))
    assert third == pytest.approx(-math.sqrt(2))
    assert fourth is None


def test_the_deviation_is_the_populations() -> None:
    assert group_advantages([1.0, 0.0], eps=0.5) == [0.5, -0.5]


def test_a_group_of_equals_has_no_advantage() -> None:
    assert group_advantages([0.25, None, 0.25]) == [0.0, None, 0.0]


@pytest.mark.parametrize("few", [[], [None, None], [1.0, None], [1.0]])
def test_too_few_judged_members_leave_the_whole_group_out(few: list[float | None]) -> None:
    assert group_advantages(few) == [None] * len(few)


def test_how_many_are_too_few_is_the_callers_to_say() -> None:
    assert group_advantages([1.0, None], min_judged=1) == [0.0, None]
    assert group_advantages([1.0, 0.0, None], min_judged=3) == [None, None, None]
    assert group_advantages([None], min_judged=0) == [None]


@given(rewards)
def test_an_unjudged_member_never_moves_its_siblings(group: list[float | None]) -> None:
    judged = group_advantages([reward for reward in group if reward is not None])
    kept = [value for reward, value in zip(group, group_advantages(group), strict=True) if reward is not None]
    assert kept == judged


@given(rewards)
def test_advantages_are_finite_or_none(group: list[float | None]) -> None:
    advantages = group_advantages(group)
    assert len(advantages) == len(group)
    assert all(value is None or math.isfinite(value) for value in advantages)


def test_the_fill_is_the_judged_siblings_mean() -> None:
    assert judged_mean_fill([1.0, None, 0.5, None]) == [1.0, 0.75, 0.5, 0.75]


def test_a_group_that_nobody_judged_is_filled_alike() -> None:
    assert judged_mean_fill([None, None]) == [0.0, 0.0]
    assert judged_mean_fill([None], nobody=-1.0) == [-1.0]
    assert judged_mean_fill([]) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "1"])
def test_what_is_no_reward_is_an_error(bad: float) -> None:
    for use in (group_advantages, judged_mean_fill):
        with pytest.raises(ValueError, match="finite number or None"):
            use([0.5, bad])


def test_siblings_share_a_seed_and_other_groups_have_another() -> None:
    seed = group_seed(7, "coin_change", "prompt-1")
    assert seed == group_seed(7, "coin_change", "prompt-1")
    assert 0 <= seed < 1 << 63
    others = [(8, "coin_change", "prompt-1"), (7, "two_sum", "prompt-1"), (7, "coin_change", "prompt-2")]
    assert len({seed, *(group_seed(*other) for other in others)}) == 4
    assert group_seed(7, "coin_change", 1) != group_seed(7, "coin_change", "1")


def test_a_groups_seed_is_the_same_in_every_process() -> None:
    assert group_seed(0, "e", "k") == 403631328258221502
