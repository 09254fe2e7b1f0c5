"""Which trainer of verl's a sample is for, and what in its configuration defeats leaving a sample out."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

__all__ = ["GROUPED", "PATCH", "in_validation", "trainer_mode", "under_v1", "warn_of_estimator", "warn_once"]

logger = logging.getLogger("deepgym_verl")

#: Set to ``1``, it has ``algorithm.adv_estimator=grpo`` leave out rows without a verdict.
PATCH = "DEEPGYM_VERL_PATCH_GRPO"
#: verl's estimators in whose baseline a masked row counts.
GROUPED = frozenset(
    {
        "gdpo",
        "gpg",
        "grpo",
        "grpo_passk",
        "grpo_vectorized",
        "reinforce_plus_plus_baseline",
        "rloo",
        "rloo_vectorized",
    }
)
_said: set[str] = set()


def under_v1(row: Mapping[str, Any]) -> bool:
    """Whether verl's v1 trainer runs this row: it alone numbers a prompt's sessions."""
    return "session_id" in row


def trainer_mode(config: Any) -> str:
    """``sync``, ``colocate_async`` or ``separate_async``, of the v1 trainer."""
    v1 = config.trainer.get("v1") or {}
    return str(v1.get("trainer_mode") or "sync")


async def in_validation(row: Mapping[str, Any]) -> bool:
    """Whether v1 validates with this row.

    verl doesn't tell an agent loop, but has noted the prompt's ``uid`` among those of its validation.
    """
    try:
        import transfer_queue

        known = await transfer_queue.async_kv_list("val")
        return row["uid"] in (known or {}).get("val", {})
    except Exception:
        logger.warning(
            "can't ask whether a sample is one of validation; it is taken for training's", exc_info=True
        )
        return False


def warn_of_estimator(config: Any) -> None:
    """Say once if masked rows will count in their siblings' baseline, or in the loss's divisor."""
    estimator = str(config.algorithm.get("adv_estimator"))
    patched = estimator == "grpo" and os.environ.get(PATCH) == "1"
    if estimator in GROUPED and not patched:
        patch = f", or set {PATCH}=1 for all of the run's processes" if estimator == "grpo" else ""
        warn_once(
            "estimator",
            f"algorithm.adv_estimator={estimator} counts masked samples, which have no verdict, as a 0 in "
            f"their group's baseline. Use algorithm.adv_estimator=deepgym_grpo (or deepgym_rloo){patch}",
        )
    actor = config.actor_rollout_ref.get("actor") or {}
    loss = str(actor.get("loss_agg_mode") or "token-mean")
    if loss != "token-mean":
        warn_once(
            "loss",
            f"actor_rollout_ref.actor.loss_agg_mode={loss} divides by all sequences of a batch, masked ones "
            "among them: the step is smaller by the share that has no verdict. token-mean isn't affected",
        )


def warn_once(key: str, message: str) -> None:
    """Log a warning, the first time in this process that there is one of this key."""
    if key not in _said:
        _said.add(key)
        logger.warning("%s", message)
