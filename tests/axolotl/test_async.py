"""Axolotl's asynchronous trainer, which the plugin refuses: why, and what the groups' mean makes of it.

Without vLLM its generation doesn't fit the TRL that it pins (and in 0.19 not even with it), so that is adapted
here; rewards and advantages are computed by its own code, in its own reward workers.
"""

from __future__ import annotations

import concurrent.futures
import math
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from deepgym_axolotl import versions

from .axo import base, letters, train
from .outages import Scored, Struck, client


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[float], list[float]]]:
    """Rewards and advantages of each batch that the asynchronous trainer scores itself."""
    import torch
    from axolotl.core.trainers.grpo.async_trainer import AsyncGRPOTrainer
    from axolotl.core.trainers.grpo.fast_async_trainer import FastAsyncGRPOTrainer

    from trl import GRPOTrainer

    def generate(self: Any, prompts: Any) -> Any:
        found = GRPOTrainer._generate(self, prompts)
        if threading.current_thread() is threading.main_thread():
            return found
        prompt_ids, ids, mask, completions, logprobs, extra, *_ = found
        return prompt_ids, ids, mask, completions, sum(map(len, ids)), logprobs, extra

    def generate_only(self: Any, *args: Any) -> Any:
        out = produce(self, *args)
        return {**out, "num_items_in_batch": torch.as_tensor(out["num_items_in_batch"])}

    seen: list[tuple[list[float], list[float]]] = []
    produce = AsyncGRPOTrainer._generate_only
    collect, score = FastAsyncGRPOTrainer._collect_reward_workers, AsyncGRPOTrainer._compute_deferred_scores

    def collected(self: Any, *args: Any) -> Any:
        assert self._reward_workers_used, "the rewards weren't asked of the workers"
        rewards = collect(self, *args)
        seen.append((rewards[:, 0].tolist(), []))
        return rewards

    def computed(self: Any, rollout: Any) -> Any:
        out = score(self, rollout)
        seen[-1][1].extend(out["advantages"].tolist())
        return out

    monkeypatch.setattr(AsyncGRPOTrainer, "_generate_only", generate_only)
    if versions.axolotl() == (0, 19):
        monkeypatch.setattr(AsyncGRPOTrainer, "_generate", generate, raising=False)
    monkeypatch.setattr(AsyncGRPOTrainer, "pad_token_id", 0, raising=False)
    monkeypatch.setattr(AsyncGRPOTrainer, "eos_token_id", 2, raising=False)
    monkeypatch.setattr(FastAsyncGRPOTrainer, "_collect_reward_workers", collected)
    monkeypatch.setattr(AsyncGRPOTrainer, "_compute_deferred_scores", computed)
    return seen


def fork_early(trainer: Any) -> None:
    """Have the reward workers forked while no thread generates: one could hold a lock that they need."""
    concurrent.futures.wait(list(trainer._async_queue.queue), timeout=60)
    trainer._get_reward_workers()


ASYNC = {"async_prefetch": True, "reward_num_workers": 2}


def test_it_takes_none_for_0_which_is_why_it_is_refused(
    tiny_model: str, tmp_path: Path, scored: list[tuple[list[float], list[float]]]
) -> None:
    plain = types.ModuleType("plain")
    plain.reward = _rewards  # type: ignore[attr-defined]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": [{"role": "user", "content": "Write."}]}\n' * 40)
    cfg = base(
        tiny_model,
        tmp_path,
        trl={**ASYNC, "reward_funcs": ["plain.reward"]},
        plugins=[],
        datasets=[{"path": str(rows), "ds_type": "json"}],
        skip_prepare_dataset=True,
        max_steps=1,
    )
    train(cfg, tmp_path, fork_early, plain=plain)
    rewards, advantages = scored[0]
    assert rewards == pytest.approx([1.0, 0.0, math.nan, 0.5] * 2, nan_ok=True)
    assert advantages == pytest.approx([1.305, -0.783, -0.783, 0.261] * 2, abs=1e-3), "siblings moved"


def _rewards(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
    return [1.0, 0.0, None, 0.5] * (len(completions) // 4)


# Workers are forked for each batch of rewards, and send what they get to a pipe.
_rewards.__module__, _rewards.__qualname__ = "plain", "reward"


def test_with_the_groups_mean_a_row_without_a_verdict_has_no_advantage_there(
    tiny_model: str,
    tmp_path: Path,
    scored: list[tuple[list[float], list[float]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = Struck(Scored(_score), _lost)
    monkeypatch.setattr("deepgym.client.DeepGym", client(lambda: provider))
    section = {"env": letters(tmp_path / "letters"), "extract": False, "no_verdict": "group_mean"}
    cfg = base(tiny_model, tmp_path, deepgym=section, trl=ASYNC, micro_batch_size=24)
    train(cfg, tmp_path, fork_early)

    assert len(scored) >= 3
    filled = 0
    for rewards, advantages in scored:
        assert not any(map(math.isnan, rewards))
        for start in range(0, 24, 4):
            group = rewards[start : start + 4]
            mean = math.fsum(group) / 4
            assert math.fsum(advantages[start : start + 4]) == pytest.approx(0.0, abs=1e-3)
            for reward, advantage in zip(group, advantages[start : start + 4], strict=True):
                if reward not in SCORES:
                    filled += 1
                    assert reward == pytest.approx(mean, abs=1e-6)
                    assert advantage == pytest.approx(0.0, abs=1e-4)
    assert filled > 5


#: Numbers whose means are none of them.
SCORES = (0.0, 0.1015625, 0.3203125, 1.0)


def _score(text: str) -> float:
    return SCORES[len(text) % 4]


def _lost(text: str) -> float:
    return 1.0 if sum(text.encode()) % 3 == 0 else 0.0
