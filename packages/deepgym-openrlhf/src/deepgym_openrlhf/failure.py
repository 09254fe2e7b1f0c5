"""What a sample gets that has no verdict.

OpenRLHF can't leave one sample of a group out, so something must be sent for it:

a number            shifts its group's baseline, and the sample is trained on as having earned it
``"group_mean"``    the mean of its judged siblings: with a group's mean as the baseline its advantage is 0,
                    and its siblings have the baseline of the judged ones
``"drop_group"``    a score that no range of dynamic filtering admits, so that the group is sampled anew
``"unsafe_nan"``    not a number, which makes every advantage of its group, or of its batch, one too
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

__all__ = ["DROPPED", "InfraFailureScore", "checked", "waits"]

InfraFailureScore: TypeAlias = float | Literal["group_mean", "drop_group", "unsafe_nan"]

#: A score outside any range for dynamic filtering: it pulls a group's mean out of it too.
DROPPED = -1_000_000.0
_WORDS = ("group_mean", "drop_group", "unsafe_nan")


def checked(score: object) -> InfraFailureScore:
    """``score`` if it is one that a sample without a verdict can get.

    Raises:
        ValueError: it isn't; the message says what is.
    """
    if isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score):
        return float(score)
    if isinstance(score, str) and score in _WORDS:
        return score  # type: ignore[return-value]
    raise ValueError(
        f"infra_failure_score={score!r:.60}: a finite number, or one of {', '.join(map(repr, _WORDS))}. What "
        'a sample without a verdict should count as is yours to say; "group_mean" is exact for estimators '
        "with a group's baseline"
    )


def waits(score: InfraFailureScore) -> bool:
    """Whether a sample without a verdict needs its siblings' scores."""
    return score in ("group_mean", "drop_group")
