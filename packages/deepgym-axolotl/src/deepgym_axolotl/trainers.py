"""``trainer_cls: deepgym_axolotl.MaskedGRPOTrainer``: rows without a verdict leave the loss too."""

from __future__ import annotations

from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer

from deepgym_trl.masking import VerdictMaskMixin

__all__ = ["MaskedGRPOTrainer"]


class MaskedGRPOTrainer(VerdictMaskMixin, AxolotlGRPOTrainer):
    """Axolotl's synchronous GRPO trainer, whose loss leaves out the rows that have no verdict.

    touches: ``axolotl.core.trainers.grpo.trainer.AxolotlGRPOTrainer``, and what ``VerdictMaskMixin`` does.
    """
