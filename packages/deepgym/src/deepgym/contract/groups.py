"""What a group of answers to one task gives a trainer when some of them weren't judged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

__all__ = ["group_advantages", "group_seed", "judged_mean_fill"]


def group_seed(run_seed: int, env_name: str, group_key: str | int) -> int:
    """A seed for the drawn cases of one group, in [0, 2**63): the same for all its members, another for
    another group, and the same in every process. For trainers that want new cases at each step.
    """
    text = f"{run_seed}\0{env_name}\0{type(group_key).__name__}\0{group_key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def group_advantages(
    rewards: Sequence[float | None], *, min_judged: int = 2, eps: float = 1e-8
) -> list[float | None]:
    """Advantages of one group over the baseline of its judged members alone.

    ``(reward - mean) / (std + eps)`` with the population standard deviation of the judged rewards; ``None``
    for a member without a verdict, which neither gets an advantage nor moves its siblings'. With fewer than
    ``min_judged`` judged members there is no baseline, and every member gets ``None``.

    Raises:
        ValueError: a reward is neither ``None`` nor a finite number.
    """
    judged = _judged(rewards)
    if len(judged) < max(min_judged, 1):
        return [None] * len(rewards)
    mean = math.fsum(judged) / len(judged)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in judged) / len(judged))
    return [None if reward is None else (reward - mean) / (std + eps) for reward in rewards]


def judged_mean_fill(rewards: Sequence[float | None], *, nobody: float = 0.0) -> list[float]:
    """Rewards with each ``None`` replaced by the mean of the judged siblings.

    For trainers that can't leave a sample out. With a baseline of the group's mean, a filled member's
    advantage is 0 and its siblings' keep their sign; their scale still changes, for the standard deviation
    of a filled group is smaller. If nobody was judged every member gets ``nobody``: all the same, so that a
    group's baseline makes nothing of it; elsewhere drop such a group.

    Raises:
        ValueError: a reward is neither ``None`` nor a finite number.
    """
    judged = _judged(rewards)
    mean = math.fsum(judged) / len(judged) if judged else nobody
    return [mean if reward is None else reward for reward in rewards]


def _judged(rewards: Sequence[float | None]) -> list[float]:
    judged = [reward for reward in rewards if reward is not None]
    for reward in judged:
        if not _is_finite(reward):
            raise ValueError(f"a reward is a finite number or None, not {reward!r}")
    return judged


def _is_finite(reward: object) -> bool:
    return isinstance(reward, (int, float)) and not isinstance(reward, bool) and math.isfinite(reward)
