"""Standing in for a missing verdict where the trainer takes ``None`` for 0: the mean of the judged siblings.

The row itself then has advantage 0. Its siblings keep their order and their mean, but with k judged of G the
group's standard deviation is smaller by sqrt((k - 1) / (G - 1)), so their advantages are larger by its
inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .settings import ConfigError

__all__ = ["group_mean"]

#: All rewards of a group of which no row was judged: equal, and exact in every float type, so that the
#: advantages are exactly 0.
NOBODY = 0.0


def group_mean(
    rewards: Sequence[float | None], prompts: Sequence[Any], size: int, strict: bool = True
) -> list[float]:
    """``rewards`` with each ``None`` replaced by the mean of the judged rows of its group.

    A group is ``size`` rows with one prompt, one after the other. Where nobody in a group was judged, all of
    it gets one number. Without ``strict`` (in an evaluation, which learns nothing) a group may be smaller.

    Raises:
        ConfigError: the rows aren't whole groups, so a mean would be of strangers or of a part.
    """
    groups = [slice(start, start + size) for start in range(0, len(rewards), size)]
    if strict:
        _whole(prompts, groups, size)
    filled: list[float] = []
    for group in groups:
        judged = [reward for reward in rewards[group] if reward is not None]
        mean = sum(judged) / len(judged) if judged else NOBODY
        filled += [mean if reward is None else reward for reward in rewards[group]]
    return filled


def _whole(prompts: Sequence[Any], groups: Sequence[slice], size: int) -> None:
    split = len(prompts) % size != 0
    if split or any(prompt != prompts[group.start] for group in groups for prompt in prompts[group]):
        raise ConfigError(
            "deepgym.no_verdict: group_mean needs whole groups, but this process was given "
            f"{len(prompts)} rows that aren't groups of trl.num_generations={size} with one prompt each: "
            "choose micro_batch_size x gradient_accumulation_steps (or trl.generation_batch_size / "
            "processes) as a multiple of it"
        )
