"""verl's own workers in one process, and what their trainer makes of what they return.

`import workers` needs verl. Nothing here starts Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import numpy as np
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
    from verl.trainer.ppo.ray_trainer import compute_advantage
    from verl.trainer.ppo.reward import extract_reward

    import verl
    from deepgym_verl import agent as agents

# Processes of Ray's import it too, by this name.
from verl_samples import (
    ADD,
    NUMBER,
    Counting,
    Model,
    Sample,
    Turn,
    batch_of,
    call,
    code,
    episode,
    response,
    row_of,
    tokenizer_of,
)

from deepgym import DeepGym
from deepgym.environments import Environment
from deepgym.integrations.judging import least_deadline
from deepgym_verl import judge as judges
from deepgym_verl.judge import Judge
from deepgym_verl.options import Options

__all__ = [
    "ADD",
    "LENGTH",
    "NUMBER",
    "VERL",
    "Batch",
    "Counting",
    "Model",
    "Sample",
    "Turn",
    "advantages",
    "agents",
    "batch_of",
    "call",
    "code",
    "config",
    "episode",
    "graded_by",
    "least",
    "legacy",
    "legacy_here",
    "response",
    "returns",
    "reward_worker",
    "row_of",
    "tokenizer_of",
]

#: Tokens of a prompt, and of a response.
PROMPT, LENGTH = 512, 1024
VERL = tuple(int(part) for part in verl.__version__.split(".")[:3])


@lru_cache(maxsize=64)
def _config(overrides: tuple[str, ...]) -> Any:
    folder = str(Path(verl.__file__).parent / "trainer" / "config")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with initialize_config_dir(config_dir=folder, version_base=None):
            return compose(config_name="ppo_trainer", overrides=list(overrides))


def config(model: str, *overrides: str) -> Any:
    """verl's whole configuration, of the legacy trainer unless told otherwise."""
    flags = (
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.rollout.name=vllm",
        f"actor_rollout_ref.rollout.prompt_length={PROMPT}",
        f"actor_rollout_ref.rollout.response_length={LENGTH}",
        "actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "actor_rollout_ref.rollout.calculate_log_probs=False",
        "actor_rollout_ref.rollout.multi_turn.max_tool_response_length=400",
        *("reward.num_workers=1", "algorithm.adv_estimator=deepgym_grpo", "trainer.logger=[console]"),
        *("trainer.n_gpus_per_node=1", "trainer.nnodes=1", "trainer.use_v1=False"),
        "reward.custom_reward_function.path=pkg://deepgym_verl.reward",
    )
    found = _config((*flags, *overrides))
    return OmegaConf.create(OmegaConf.to_container(found))


@contextlib.contextmanager
def graded_by(
    provider: Any, cfg: Any = None, *, env: Sequence[Any] = (ADD, NUMBER), **client: Any
) -> Iterator[Judge]:
    """Have a client of `provider` grade what asks with the options of `cfg`; it is closed at the end."""
    function = {} if cfg is None else cfg.reward.custom_reward_function.get("reward_kwargs") or {}
    options = Options.read(function)
    with DeepGym(provider=provider, **client) as dg:
        judge = judges._judges[options] = Judge(replace(options, env=tuple(env)), dg)
        try:
            yield judge
        finally:
            del judges._judges[options]


@dataclass
class Batch:
    """What the legacy worker hands to its trainer."""

    data: Any
    config: Any
    model: Model
    uids: list[str] = field(default_factory=list)

    @property
    def scores(self) -> list[float]:
        found: list[float] = self.data.batch["rm_scores"].sum(-1).tolist()
        return found

    @property
    def tokens(self) -> list[int]:
        """Tokens of each row that are trained on."""
        found: list[int] = self.data.batch["response_mask"].sum(-1).tolist()
        return found

    @property
    def texts(self) -> list[str]:
        """Each response, with its special tokens."""
        length = self.data.batch["responses"].shape[-1]
        seen = self.data.batch["attention_mask"][:, -length:].bool()
        return [
            self.model.tokenizer.decode(row[mask])
            for row, mask in zip(self.data.batch["responses"], seen, strict=True)
        ]

    @property
    def trained(self) -> list[str]:
        """What of each response is trained on."""
        masks = self.data.batch["response_mask"].bool()
        return [
            self.model.tokenizer.decode(row[mask])
            for row, mask in zip(self.data.batch["responses"], masks, strict=True)
        ]

    def told(self, key: str) -> list[Any]:
        """A key of `reward_extra_info`."""
        return list(self.data.non_tensor_batch[key])

    @property
    def keys(self) -> tuple[str, ...]:
        found: Sequence[str] = self.data.meta_info["reward_extra_keys"]
        return tuple(found)


def advantages(batch: Batch, estimator: str = "deepgym_grpo") -> list[float]:
    """Of each row, as the legacy trainer has them computed: the first token's, which all its tokens share."""
    data = batch.data.select()
    rewards, _ = extract_reward(data)
    data.batch["token_level_rewards"] = rewards
    data.non_tensor_batch["uid"] = np.array(batch.uids, dtype=object)
    found = compute_advantage(data, estimator, config=batch.config.algorithm).batch["advantages"]
    masks = data.batch["response_mask"]
    assert not (found * (1 - masks)).any(), "something is trained that isn't the policy's"
    for row, mask in zip(found, masks, strict=True):
        assert len(set(row[mask.bool()].tolist())) <= 1
    spread: list[float] = [
        round(float(row.sum() / max(1, mask.sum())), 3) for row, mask in zip(found, masks, strict=True)
    ]
    return spread


def returns(batch: Batch, estimator: str) -> list[float]:
    """Of each row, as an estimator has them that goes from token to token: the first token's, nothing discounted."""
    data = batch.data.select()
    data.batch["token_level_rewards"], _ = extract_reward(data)
    data.batch["values"] = 0 * data.batch["token_level_rewards"]
    found = compute_advantage(data, estimator, gamma=1.0, lam=1.0, config=batch.config.algorithm)
    return [round(value, 3) for value in found.batch["returns"][:, 0].tolist()]


def legacy(
    cfg: Any, samples: Sequence[Sample], *, rewards: RewardLoopWorker | None = None, validate: bool = False
) -> Batch:
    """What verl's own worker makes of the samples. `rewards` grades what the loops don't."""
    return asyncio.run(legacy_here(cfg, samples, rewards=rewards, validate=validate))


async def legacy_here(
    cfg: Any, samples: Sequence[Sample], *, rewards: RewardLoopWorker | None = None, validate: bool = False
) -> Batch:
    """`legacy`, in the event loop that runs."""
    model = Model(None, {f"p{number}": [sample.turns] for number, sample in enumerate(samples)})
    handles = None if rewards is None else [_handle(rewards)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worker = AgentLoopWorker(cfg, model, None, handles)
    model.tokenizer = worker.tokenizer
    batch = batch_of(samples, validate=validate)
    found = await worker.generate_sequences(batch)
    return Batch(found, cfg, model, [sample.uid for sample in samples])


def least(env: Environment) -> float:
    """The shortest `deadline` that a run of `env` fits into."""
    return least_deadline([env])


def reward_worker(cfg: Any) -> RewardLoopWorker:
    """verl's own; must be made in the event loop that it works in."""
    return RewardLoopWorker(cfg)


def _handle(worker: RewardLoopWorker) -> Any:
    """What an agent loop's worker calls as a Ray actor."""
    return SimpleNamespace(compute_score=SimpleNamespace(remote=worker.compute_score))
