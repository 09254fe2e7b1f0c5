"""DAPO (Yu et al. 2025, arXiv 2503.14476) with TRL: its settings, and its soft overlong penalty.

The penalty isn't a second reward function, because one would give a number to a row that has no verdict, and
TRL would then train on our failure as on a 0.

Two things to know about DAPO in TRL:

- ``mask_truncated_completions`` takes the tokens of an answer that ran into ``max_completion_length`` out of
  the loss, but not its reward out of its group: the siblings' baseline still counts it, and with the penalty
  it counts less than 0. So long failures raise the advantage of shorter siblings without being trained on
  themselves. A row without a verdict is out of the baseline, and with ``DeepGymGRPOTrainer`` out of the loss.
- *Dynamic sampling*, which draws new prompts until each group has both right and wrong answers, isn't in TRL.
  A group whose rewards are all equal stays in the batch with advantage 0, and still counts in the loss's
  normaliser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .composite import CompositeReward
from .rewards import TRLReward
from .versions import missing

if TYPE_CHECKING:
    from trl import GRPOConfig

    from .rows import Envs

__all__ = ["DapoReward", "SoftOverlong", "dapo_config", "dapo_settings", "make_dapo_reward_fn"]


class SoftOverlong:
    """DAPO's penalty for length, in tokens: a number in [-1, 0] for each completion.

    It is 0 up to ``max_completion_length - soft_punish_cache``, falls in a straight line over the cache, and
    is -1 at ``max_completion_length`` and beyond.

    Raises:
        ValueError: not ``0 < soft_punish_cache <= max_completion_length``.
    """

    __name__ = "overlong_penalty"

    def __init__(self, max_completion_length: int, soft_punish_cache: int) -> None:
        if not 0 < soft_punish_cache <= max_completion_length:
            raise ValueError(
                f"soft_punish_cache={soft_punish_cache} of max_completion_length={max_completion_length}: "
                "the cache is the last part of the length, over which the penalty grows, so it is more than "
                "0 and at most all of it"
            )
        self.max_completion_length = max_completion_length
        self.soft_punish_cache = soft_punish_cache

    def __call__(self, completion_ids: Sequence[Sequence[int]] | None = None, **call: Any) -> list[float]:
        """The penalty of each completion.

        Raises:
            ValueError: there are no ``completion_ids`` to take the length from.
        """
        if completion_ids is None:
            raise ValueError(
                "the overlong penalty needs completion_ids, a list of token ids for each completion (TRL's "
                "trainers give them): call with completion_ids=[...], or use make_trl_reward_fn, which has "
                "no penalty"
            )
        return [self.penalty(len(ids)) for ids in completion_ids]

    def penalty(self, length: int) -> float:
        """The penalty of a completion of ``length`` tokens."""
        over = length - (self.max_completion_length - self.soft_punish_cache)
        return 0.0 - min(max(over, 0) / self.soft_punish_cache, 1.0)


class DapoReward(CompositeReward):
    """See ``make_dapo_reward_fn``."""

    def __init__(self, reward: TRLReward, penalty: SoftOverlong, weight: float) -> None:
        super().__init__(reward, penalty, weights=(1.0, weight), name=reward.__name__)
        self.penalty = penalty
        self.metrics = {self.parts[1].name: "deepgym/overlong_penalty"}


def make_dapo_reward_fn(
    env: Envs | None = None,
    *,
    max_completion_length: int,
    soft_punish_cache: int,
    overlong_weight: float = 1.0,
    **options: Any,
) -> DapoReward:
    """A reward function for TRL: the score plus ``overlong_weight`` times DAPO's soft overlong penalty.

    A reward is a finite number in [-overlong_weight, 1], or ``None`` without a verdict, however long the
    answer. ``max_completion_length`` is the trainer's; a completion's length is that of its
    ``completion_ids``. The mean penalty of the rows with a verdict is logged as ``deepgym/overlong_penalty``.
    ``env`` and ``options`` are those of ``TRLReward``.

    Raises:
        ValueError: the penalty's numbers make no sense, or what ``TRLReward`` raises.
    """
    if not 0 <= overlong_weight < float("inf"):
        raise ValueError(f"overlong_weight={overlong_weight}: give a finite number that is at least 0")
    penalty = SoftOverlong(max_completion_length, soft_punish_cache)
    return DapoReward(TRLReward(env, **options), penalty, overlong_weight)


def dapo_settings(**over: Any) -> dict[str, Any]:
    """The arguments of ``GRPOConfig`` that make it DAPO, with ``over`` on top. Needs no TRL.

    The token-level loss, a higher upper clip, no KL term, advantages scaled by the group's deviation, and
    truncated completions out of the loss (see above). The paper draws 16 answers per prompt:
    ``num_generations=16`` is left to you, since the batch has to be divisible by it.
    """
    return {
        "loss_type": "dapo",
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "scale_rewards": "group",
        "mask_truncated_completions": True,
        **over,
    }


def dapo_config(**over: Any) -> GRPOConfig:
    """TRL's ``GRPOConfig`` with ``dapo_settings(**over)``; raises what it raises for a wrong argument."""
    try:
        from trl import GRPOConfig
    except ModuleNotFoundError as error:
        raise missing("dapo_config", error) from error
    return GRPOConfig(**dapo_settings(**over))
