"""Advantage estimators in which a row without a verdict counts for nothing.

verl's own estimators with a group's baseline take every row into it, one that is masked too: its siblings'
advantages move. Here a row whose response mask is 0 throughout is in no mean and no deviation, and a group's
only judged row gets 0 instead of its raw score. Under both trainers; otherwise the numbers are verl's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import torch

__all__ = ["ESTIMATORS", "deepgym_grpo", "deepgym_rloo", "patch_grpo"]

_Advantages = tuple[torch.Tensor, torch.Tensor]


def deepgym_grpo(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Iterable[Any],
    epsilon: float = 1e-6,
    norm_adv_by_std_in_grpo: bool | None = None,
    config: Any = None,
    **kwargs: Any,
) -> _Advantages:
    """GRPO over the judged rows: ``(score - mean) / (std + epsilon)`` of the group.

    Args:
        token_level_rewards, response_mask: ``[batch, response_length]``.
        index: Each row's group.
        epsilon: Added to the deviation.
        norm_adv_by_std_in_grpo: Whether to divide by the deviation; ``None``: as the configuration says.
        config: ``algorithm`` of verl's configuration.

    Returns:
        Advantages and returns, the same tensor: ``[batch, response_length]``, 0 where the mask is.
    """
    divide = norm_adv_by_std_in_grpo
    if divide is None:
        divide = True if config is None else bool(config.get("norm_adv_by_std_in_grpo", True))

    def advantages(scores: torch.Tensor) -> torch.Tensor:
        centred = scores - scores.mean()
        return centred / (scores.std() + epsilon) if divide else centred

    return _grouped(token_level_rewards, response_mask, index, advantages)


def deepgym_rloo(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Iterable[Any],
    config: Any = None,
    **kwargs: Any,
) -> _Advantages:
    """RLOO over the judged rows: each score less the mean of the others. As ``deepgym_grpo`` otherwise."""

    def advantages(scores: torch.Tensor) -> torch.Tensor:
        count = len(scores)
        return scores * count / (count - 1) - scores.mean() * count / (count - 1)

    return _grouped(token_level_rewards, response_mask, index, advantages)


ESTIMATORS: dict[str, Callable[..., _Advantages]] = {
    "deepgym_grpo": deepgym_grpo,
    "deepgym_rloo": deepgym_rloo,
}


def _grouped(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Iterable[Any],
    advantages: Callable[[torch.Tensor], torch.Tensor],
) -> _Advantages:
    with torch.no_grad():
        scores = token_level_rewards.sum(dim=-1)
        judged = (response_mask.sum(dim=-1) > 0).tolist()
        groups: dict[Any, list[int]] = defaultdict(list)
        for row, group in enumerate(index):
            if judged[row]:
                groups[group].append(row)
        found = torch.zeros_like(scores)
        for rows in groups.values():
            if len(rows) > 1:
                found[rows] = advantages(scores[rows])
        spread = found.unsqueeze(-1) * response_mask
    return spread, spread


def patch_grpo(module: Any = None) -> None:
    """Have ``algorithm.adv_estimator=grpo`` compute what ``deepgym_grpo`` does, in this process.

    Replaces ``verl.trainer.ppo.core_algos.compute_grpo_outcome_advantage``, which both trainers look
    up there; ``module`` is that module, where it is at hand. The variable ``DEEPGYM_VERL_PATCH_GRPO=1`` has
    it done wherever verl is imported.
    """
    if module is None:
        module = import_module("verl.trainer.ppo.core_algos")

    module.compute_grpo_outcome_advantage = deepgym_grpo
    module.ADV_ESTIMATOR_REGISTRY["grpo"] = deepgym_grpo
