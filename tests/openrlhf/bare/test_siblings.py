"""What a sample without a verdict gets of its siblings, and for whom it waits."""

from __future__ import annotations

import asyncio
import time
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym_openrlhf import siblings
from deepgym_openrlhf.siblings import Groups, Member

LONG = 3600.0


def never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def waiting(member: Member, until: float | None = None, stop: Any = None) -> asyncio.Task[float]:
    end = time.monotonic() + LONG if until is None else until
    return asyncio.ensure_future(member.mean(end, never() if stop is None else stop))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_mean_is_of_the_judged_siblings_that_came_before_and_after() -> None:
    async def main() -> None:
        groups = Groups(4)
        first, lost, late = (groups.join("p") for _ in range(3))
        first.judged(1.0)
        mean = waiting(lost)
        late.judged(0.0)
        await settled()
        assert not mean.done()
        groups.join("p").judged(0.5)
        assert await mean == 0.5

    asyncio.run(main())


def test_without_a_size_only_siblings_that_are_here_are_waited_for() -> None:
    async def main() -> None:
        groups = Groups()
        lost, other = groups.join("p"), groups.join("p")
        mean = waiting(lost)
        await settled()
        assert not mean.done()
        other.judged(0.25)
        assert await mean == 0.25
        assert await groups.join("p").mean(time.monotonic() + LONG, never()) == 0.25

    asyncio.run(main())


def test_two_siblings_without_a_verdict_dont_wait_for_one_another() -> None:
    async def main() -> None:
        groups = Groups(3)
        one, two = waiting(groups.join("p")), waiting(groups.join("p"))
        await settled()
        groups.join("p").judged(0.75)
        assert await asyncio.gather(one, two) == [0.75, 0.75]

    asyncio.run(main())


def test_all_of_a_group_that_is_lost_get_one_and_the_same_number() -> None:
    async def main() -> None:
        groups = Groups(3)
        groups.join("other").judged(0.2)
        lost = [groups.join("p") for _ in range(3)]
        found = []
        for number, member in enumerate(lost):
            found.append(await member.mean(0.0, never()))
            groups.join(f"other {number}").judged(1.0)
        assert found == [0.2, 0.2, 0.2]
        assert await groups.join("q").mean(0.0, never()) == pytest.approx(fmean([0.2, 1, 1, 1]))

    asyncio.run(main())


def test_before_anything_was_judged_the_middle_stands_in() -> None:
    async def main() -> None:
        assert await Groups().join("p").mean(time.monotonic() + LONG, never()) == 0.5

    asyncio.run(main())


def test_a_sibling_that_never_comes_is_waited_for_only_so_long() -> None:
    async def main() -> None:
        groups = Groups(8, patience=0.0)
        groups.join("p").judged(1.0)
        assert await groups.join("p").mean(time.monotonic() + LONG, never()) == 1.0

    asyncio.run(main())


def test_a_sibling_that_is_here_is_waited_for_until_the_end_alone() -> None:
    async def main() -> None:
        groups = Groups(2, patience=0.0)
        lost, slow = groups.join("p"), groups.join("p")
        mean = waiting(lost, time.monotonic() + 0.05)
        assert await mean == 0.5
        slow.judged(1.0)

    asyncio.run(main())


def test_whoever_is_told_to_stop_waits_for_nobody() -> None:
    async def main() -> None:
        groups = Groups(2)
        open_sibling, stop = groups.join("p"), never()
        mean = waiting(groups.join("p"), stop=stop)
        await settled()
        stop.set_result(None)
        assert await mean == 0.5
        open_sibling.leave()

    asyncio.run(main())


def test_a_sibling_that_leaves_isnt_waited_for_and_leaves_once() -> None:
    async def main() -> None:
        groups = Groups()
        gone, lost = groups.join("p"), groups.join("p")
        mean = waiting(lost)
        await settled()
        gone.leave()
        gone.leave()
        assert await mean == 0.5
        later = groups.join("p")
        assert not (second := waiting(groups.join("p"))).done()
        later.judged(1.0)
        assert await second == 1.0

    asyncio.run(main())


def test_the_next_epochs_samples_are_another_group() -> None:
    async def main() -> None:
        groups = Groups(2)
        for score in (1.0, 1.0, 0.0):
            groups.join("p").judged(score)
        assert await groups.join("p").mean(0.0, never()) == 0.0

    asyncio.run(main())


def test_prompts_dont_mix() -> None:
    async def main() -> None:
        groups = Groups()
        groups.join("a").judged(1.0)
        groups.join("b").judged(0.0)
        assert await groups.join("a").mean(0.0, never()) == 1.0
        assert await groups.join("b").mean(0.0, never()) == 0.0

    asyncio.run(main())


def test_groups_that_are_over_are_forgotten_and_open_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        groups = Groups(2)
        held = groups.join("held")
        monkeypatch.setattr(siblings, "LINGER", -1.0)
        for number in range(5000):
            groups.join(number).judged(1.0)
        assert len(groups) < 20
        mean = waiting(groups.join("held"))
        held.judged(0.25)
        assert await mean == 0.25

    asyncio.run(main())


def test_a_prompt_that_never_ends_takes_no_more_and_more_room() -> None:
    async def main() -> None:
        groups = Groups()
        for _ in range(3000):
            groups.join("p").judged(1.0)
        (group,) = groups._groups.values()
        assert len(group.judged) == 256

    asyncio.run(main())


@given(st.floats(0, 1), st.integers(1, 16))
@settings(max_examples=50, deadline=None)
def test_the_mean_of_equal_scores_is_that_score(score: float, count: int) -> None:
    async def main() -> None:
        groups = Groups()
        for _ in range(count):
            groups.join("p").judged(score)
        assert await groups.join("p").mean(0.0, never()) == score

    asyncio.run(main())


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"size": -1}, {"patience": -1.0}, {"patience": float("nan")}]
)
def test_a_group_has_a_size_and_a_patience_that_can_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Groups(**options)
