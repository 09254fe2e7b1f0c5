"""The samples of one prompt know of one another while they are under way, and no longer."""

from __future__ import annotations

from deepgym_verl import siblings
from deepgym_verl.siblings import join


def test_samples_of_one_prompt_are_one_group() -> None:
    groups = [join("a") for _ in range(4)]
    assert len(set(map(id, groups))) == 1
    assert join("b") is not groups[0]
    assert groups[0].open == 4


def test_only_the_last_of_a_group_in_which_nobody_was_judged_sees_that_all_are_lost() -> None:
    group, *_ = [join("a") for _ in range(3)]
    seen = []
    for _ in range(3):
        seen.append(group.all_lost)
        group.leave()
    assert seen == [False, False, True]


def test_a_sibling_that_was_judged_is_remembered_until_the_group_is_over() -> None:
    group, *_ = [join("a") for _ in range(3)]
    group.judged += 1
    group.leave()
    group.leave()
    assert not group.all_lost
    group.leave()
    assert not siblings._groups
    again = join("a")
    assert again is not group
    assert again.all_lost
    again.leave()


def test_samples_without_a_uid_are_groups_of_their_own() -> None:
    one, other = join(None), join(None)
    assert one is not other
    assert one.all_lost
    one.leave()
    other.leave()
    assert not siblings._groups


def test_a_uid_of_any_type_is_known_by_its_text() -> None:
    assert join(3) is join("3")


def test_groups_that_are_over_are_forgotten() -> None:
    for number in range(1000):
        group = join(f"uid-{number}")
        join(f"uid-{number}").leave()
        group.leave()
    assert not siblings._groups
