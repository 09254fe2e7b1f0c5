"""TRL's trainers with the verdict mask mixed in."""

from __future__ import annotations

from trl import GRPOTrainer, RLOOTrainer

from .masking import VerdictMaskMixin

__all__ = ["DeepGymGRPOTrainer", "DeepGymRLOOTrainer"]


class DeepGymGRPOTrainer(VerdictMaskMixin, GRPOTrainer):
    """``GRPOTrainer`` whose loss leaves out the rows for which every reward function returned None."""


class DeepGymRLOOTrainer(VerdictMaskMixin, RLOOTrainer):
    """``RLOOTrainer`` whose loss leaves out the rows for which every reward function returned None."""
