"""Real trainers on a tiny model: one generation batch a case, everything that matters is kept.

A file beside the tests that torchrun's script can import too. Completions are scripted (random tokens of random
lengths, so that what a loss divides by shows) unless a test asks for real ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from datasets import Dataset

import trl

Rewards = Sequence["float | None"]

TRL = tuple(int(part) for part in trl.__version__.split(".")[:2])
HAS_ENTROPY_BONUS = TRL >= (1, 8)
#: Where a loss divides by the batch's tokens, its entropy bonus did so too.
ENTROPY_BY_TOKENS = TRL < (1, 11)
#: `num_items_in_batch` counted truncated completions that the mask leaves out.
COUNTS_TRUNCATED = TRL < (1, 9)
BASES = {"grpo": trl.GRPOTrainer, "rloo": trl.RLOOTrainer}


N = None
#: Rewards of two groups of four.
OUTAGE: Rewards = (1, 0, N, 0.5, N, N, 1, 0)
NOTHING: Rewards = (N,) * 8
ALL: Rewards = (1, 0, 0.25, 0.5, 0, 0, 1, 0)

#: Attributes of a GRPO trainer: the policy's term alone, and with all that TRL adds to it.
PLAIN: dict[str, Any] = {"beta": 0.0, "importance_sampling_level": "token"}
EXTRAS: dict[str, Any] = {"beta": 0.05, "importance_sampling_level": "token"}
if HAS_ENTROPY_BONUS:
    PLAIN |= {"entropy_coef": 0.0, "_entropy_bonus_enabled": False}
    EXTRAS |= {"entropy_coef": 0.1, "_entropy_bonus_enabled": True}


@dataclass(frozen=True)
class Case:
    """Rewards of a generation batch (of all ranks), and trainer attributes to set before it is generated."""

    name: str
    rewards: Rewards
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Record:
    trainer: Any
    batches: list[dict[str, Any]] = field(default_factory=list)
    buffers: list[list[dict[str, Any]]] = field(default_factory=list)
    lengths: list[list[int]] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def logs(self) -> list[dict[str, Any]]:
        return [line for line in self.trainer.state.log_history if "reward" in line]

    def advantages(self, at: int) -> list[float]:
        return [float(value) for value in self.batches[at]["advantages"]]


def arguments(kind: str, folder: Any, **options: Any) -> Any:
    config = trl.GRPOConfig if kind == "grpo" else trl.RLOOConfig
    plain: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 8,
        "learning_rate": 0.0,
        "max_grad_norm": 0.0,
        "beta": 0.0,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "seed": 0,
    }
    return config(**{**plain, **options})


def dataset(rows: int = 64) -> Any:
    return Dataset.from_list(
        [{"prompt": [{"role": "user", "content": f"task {row}"}], "place": row % 2} for row in range(rows)]
    )


def gradient(model: Any) -> Any:
    """All of a model's gradient, as one vector."""
    return torch.cat(
        [
            (torch.zeros_like(weights) if weights.grad is None else weights.grad).flatten().clone()
            for weights in model.parameters()
        ]
    )


def script(trainer: Any, kind: str, record: Record, rank: int = 0, longest: int = 8) -> None:
    """Random completions in place of generated ones: a seed a call, random lengths, half of them ended."""
    end, words = trainer.processing_class.eos_token_id, trainer.model.config.vocab_size

    def generate(prompt_ids: Any, *_: Any, **__: Any) -> Any:
        dice = random.Random(f"{len(record.lengths)} {rank}")
        completions = []
        for _ in prompt_ids:
            tokens = [dice.randrange(50, words) for _ in range(dice.randrange(1, longest))]
            completions.append([*tokens, end] if dice.random() < 0.5 else tokens)
        record.lengths.append([len(tokens) for tokens in completions])
        return (completions, None) if kind == "grpo" else completions

    trainer._generate_single_turn = generate


def train(
    kind: str,
    model: str,
    folder: Any,
    cases: Sequence[Case],
    *,
    base: type | None = None,
    scripted: bool = True,
    longest: int = 8,
    steps: int | None = None,
    reward_funcs: Any = None,
    expect: Callable[[Record, Any, int], Any] | None = None,
    prepare: Callable[[Any], None] | None = None,
    more: Mapping[str, Any] | None = None,
    **options: Any,
) -> Record:
    """Train through ``cases``; ``expect(record, model, step)`` is asked for a gradient at the weights of each step."""
    record = Record(trainer=None)

    def judge(completions: Any, **columns: Any) -> Any:
        rewards = cases[len(record.batches) % len(cases)].rewards
        record.calls.append({"rows": len(completions), "place": columns.get("place")})
        start = record.trainer.accelerator.process_index * len(completions)
        return list(rewards[start : start + len(completions)])

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            record.gradients.append(gradient(model))
            if expect is not None:
                kept = [weights.grad for weights in model.parameters()]
                model.zero_grad(set_to_none=True)
                expected = expect(record, model, len(record.gradients) - 1)
                record.expected.append(expected)
                for weights, before in zip(model.parameters(), kept, strict=True):
                    weights.grad = before

    trainer = (base or BASES[kind])(
        model=model,
        reward_funcs=judge if reward_funcs is None else reward_funcs,
        args=arguments(kind, folder, max_steps=len(cases) if steps is None else steps, **options),
        train_dataset=dataset(),
        callbacks=[Watch()],
        **(more or {}),
    )
    record.trainer = trainer
    if scripted:
        script(trainer, kind, record, trainer.accelerator.process_index, longest)
    score = trainer._generate_and_score_completions

    def scored(inputs: Any) -> Any:
        for name, value in cases[len(record.batches) % len(cases)].settings.items():
            setattr(trainer, name, value)
        batch = score(inputs)
        record.batches.append(dict(batch))
        return batch

    trainer._generate_and_score_completions = scored
    if prepare is not None:
        prepare(trainer)
    trainer.train()
    return record


def without(batch: Mapping[str, Any], keep: Any, tokens: int | None = None) -> dict[str, Any]:
    """``batch`` had the rows that aren't in ``keep`` not been there; nothing in it is DeepGym's."""
    rows = {
        name: value[keep] if isinstance(value, torch.Tensor) and value.dim() else value
        for name, value in batch.items()
        if not name.startswith("deepgym")
    }
    if "num_items_in_batch" in rows:
        mask = rows["completion_mask"] * rows.get("tool_mask", 1)
        rows["num_items_in_batch"] = mask.sum() if tokens is None else torch.tensor(tokens)
    return rows


def stock(kind: str, model: str, folder: Any, **options: Any) -> Any:
    """TRL's own trainer, one micro-batch a step, to ask for the gradient of a batch that it never generated."""
    trainer = BASES[kind](
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments(kind, folder, **options),
        train_dataset=dataset(8),
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def stock_gradient(trainer: Any, model: Any, batch: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """The gradient at ``model``'s weights; the model is left without one."""
    trainer.model.train()
    kept = {name: getattr(trainer, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(trainer, name, value)
        model.zero_grad(set_to_none=True)
        trainer.compute_loss(model, dict(batch)).backward()
        return gradient(model)
    finally:
        model.zero_grad(set_to_none=True)
        for name, value in kept.items():
            setattr(trainer, name, value)


def judged(case: Case) -> Any:
    return torch.tensor([reward is not None for reward in case.rewards])


def close(left: Any, right: Any) -> None:
    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


def whole(trainer: Any, cases: Sequence[Case]) -> Callable[[Record, Any, int], Any]:
    """For ``expect``: TRL's gradient of the judged rows, in one micro-batch."""

    def expect(record: Record, model: Any, step: int) -> Any:
        rows = without(record.batches[step], judged(cases[step]))
        return stock_gradient(trainer, model, rows, cases[step].settings)

    return expect
