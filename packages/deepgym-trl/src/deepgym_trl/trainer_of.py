"""What a reward call tells of its trainer.

TRL gives a reward function no trainer, but the ``log_metric`` that it gives is a method of it
(``GRPOTrainer._log_metric``, ``RLOOTrainer._log_metric``). Where it isn't, nothing is known, nothing said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["TOUCHES", "ddp_timeout_of", "reward_funcs_of", "trainer_of"]

TOUCHES = ("trl.GRPOTrainer._log_metric", "trl.RLOOTrainer._log_metric")


def trainer_of(log_metric: object) -> Any | None:
    """The trainer whose method ``log_metric`` is, or ``None``."""
    owner = getattr(log_metric, "__self__", None)
    return owner if hasattr(owner, "reward_funcs") and hasattr(owner, "args") else None


def reward_funcs_of(trainer: Any) -> Sequence[Any]:
    """All reward functions of a trainer."""
    return tuple(getattr(trainer, "reward_funcs", ()))


def ddp_timeout_of(trainer: Any) -> float | None:
    """Seconds after which a rank that waits for the others ends the run; ``None`` with one process."""
    args = getattr(trainer, "args", None)
    if getattr(args, "world_size", 1) <= 1:
        return None
    seconds = getattr(args, "ddp_timeout", None)
    return float(seconds) if isinstance(seconds, (int, float)) else None
