"""What the probe has verl compute: advantages by both trainers, and rewards by its managers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from . import probe_rows
from .probe_rows import ENV

__all__ = [
    "GROUP",
    "advantages",
    "advantages_v1",
    "all_masked",
    "manager",
    "manager_outage",
    "patched",
    "rate_limited",
]

#: Scores of one group, with an outage in it.
GROUP = (1.0, 1.0, 0.0, None)
_Compute = Callable[[str, Sequence[float | None]], list[float]]


def advantages() -> dict[str, list[float]]:
    """The legacy trainer's, of ``GROUP``: by ours, by verl's own, and by verl's own without the lost row."""
    return _of_all(_legacy)


def advantages_v1() -> dict[str, list[float]]:
    """The v1 trainer's."""
    return _of_all(_v1)


def patched() -> list[float]:
    """Advantages by ``grpo`` after ``patch_grpo``, which is undone."""
    from .advantages import patch_grpo

    algorithms: Any = import_module("verl.trainer.ppo.core_algos")
    kept = algorithms.compute_grpo_outcome_advantage, algorithms.ADV_ESTIMATOR_REGISTRY["grpo"]
    patch_grpo()
    try:
        return _legacy("grpo", GROUP)
    finally:
        algorithms.compute_grpo_outcome_advantage, algorithms.ADV_ESTIMATOR_REGISTRY["grpo"] = kept


def all_masked() -> str:
    """What becomes of a batch in which no row has a verdict, where verl compares it with the rollout."""
    helper: Any = import_module("verl.trainer.ppo.rollout_corr_helper")
    batch = _batch([None] * len(GROUP))
    for name in ("old_log_probs", "rollout_log_probs"):
        batch.batch[name] = batch.batch["token_level_rewards"]
    helper.compute_rollout_correction_and_add_to_batch(batch, _algorithm().rollout_correction)
    return "it goes on"


def _of_all(compute: _Compute) -> dict[str, list[float]]:
    judged = [score for score in GROUP if score is not None]
    return {
        "ours": compute("deepgym_grpo", GROUP),
        "grpo": compute("grpo", GROUP),
        "judged": compute("grpo", judged),
    }


def _legacy(estimator: str, scores: Sequence[float | None]) -> list[float]:
    compute = import_module("verl.trainer.ppo.ray_trainer").compute_advantage
    return _read(compute(_batch(scores), adv_estimator=estimator, config=_algorithm()))


def _v1(estimator: str, scores: Sequence[float | None]) -> list[float]:
    compute = import_module("verl.trainer.ppo.v1.utils").compute_advantage_for_multi_trajectories
    keys = [f"group_{session}_0" for session in range(len(scores))]
    return _read(compute(_batch(scores), batch_keys=keys, adv_estimator=estimator, config=_algorithm()))


def _algorithm() -> Any:
    return probe_rows.config(ENV).algorithm


def _batch(scores: Sequence[float | None]) -> Any:
    import numpy
    import torch

    from verl import DataProto

    rewards = torch.tensor([[0.0, score or 0.0] for score in scores])
    mask = torch.tensor([[0, 0] if score is None else [1, 1] for score in scores])
    group = numpy.array(["group"] * len(scores), dtype=object)
    return DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": group}
    )


def _read(data: Any) -> list[float]:
    return [round(float(value), 3) for value in data.batch["advantages"][:, 0]]


def manager() -> list[dict[str, float]]:
    """``score`` and ``error`` of a reference and of an empty answer, in the default reward manager."""
    settings = probe_rows.config(ENV)
    found = [_managed(settings, text) for text in probe_rows.answers()]
    return [{"score": each["reward_score"], "error": each["reward_extra_info"]["error"]} for each in found]


def manager_outage() -> str:
    """What it makes of a run that the provider fails."""
    from deepgym.exceptions import NoVerdictError

    try:
        found = _managed(probe_rows.broken(ENV), probe_rows.answers()[0])
    except NoVerdictError:
        return NoVerdictError.__name__
    return f"a reward of {found['reward_score']}"


def rate_limited() -> str:
    """What the manager that turns an outage into a 0 says to our function: an error, which is wanted."""
    settings = probe_rows.config(ENV, "reward.reward_manager.name=rate_limited")
    try:
        _managed(settings, "")
    except ValueError as error:
        return str(error)
    return ""


def _managed(settings: Any, text: str) -> Any:
    """What the configured manager makes of one sample; made where verl's event loop runs, as verl does."""

    async def run() -> Any:
        function = import_module("verl.trainer.ppo.reward")
        made = function.resolve_reward_manager_cls(settings)(
            settings, probe_rows.tokenizer(), function.get_custom_reward_fn(settings)
        )
        return await made.run_single(_sample(text))

    return asyncio.run(run())


def _sample(text: str) -> Any:
    import numpy
    import torch

    from verl import DataProto

    tokenizer = probe_rows.tokenizer()
    tokens = torch.tensor([[*tokenizer.encode(text), tokenizer.eos_token_id]])
    row = {
        "data_source": f"deepgym/{ENV}",
        "reward_model": {"style": "rule", "ground_truth": ENV},
        "extra_info": {"index": 0, "env": ENV},
    }
    columns = {}
    for name, value in row.items():
        columns[name] = numpy.empty(1, dtype=object)
        columns[name][0] = value
    tensors = {"responses": tokens, "attention_mask": torch.ones_like(tokens)}
    return DataProto.from_dict(tensors=tensors, non_tensors=columns)
