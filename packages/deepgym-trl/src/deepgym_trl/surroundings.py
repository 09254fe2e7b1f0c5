"""What a trainer makes of a reward function, looked at once, when it first calls it."""

from __future__ import annotations

import logging
from typing import Any

from .composite import unmasking
from .trainer_of import ddp_timeout_of, reward_funcs_of

__all__ = ["examine"]

logger = logging.getLogger(__name__)


def examine(trainer: Any, longest: float) -> None:
    """Warn of reward functions that give rows without a verdict a reward after all.

    Raises:
        ValueError: a call may take ``longest`` seconds, and the other ranks don't wait that long.
    """
    if others := unmasking(reward_funcs_of(trainer)):
        logger.warning(
            "reward function(s) %s also reward rows that have no verdict, so that TRL trains on an outage as "
            "on a reward of 0 from DeepGym; make them parts of one deepgym_trl.CompositeReward, or wrap each "
            "in deepgym_trl.gate(fn, by=reward)",
            ", ".join(others),
        )
    timeout = ddp_timeout_of(trainer)
    if timeout is not None and timeout < longest:
        raise ValueError(
            f"the trainer's ddp_timeout is {timeout:g} s, but a call of the reward function may take "
            f"{longest:g} s, and the other ranks would give up: set ddp_timeout={longest + 60:.0f} in the "
            f"trainer's config, or give the reward function ddp_timeout={timeout:g}"
        )
