"""What torchrun starts twice: `two_ranks.py MODEL FOLDER` leaves what each rank saw in FOLDER/rank-0.pt and rank-1.pt."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import lab
import torch

from deepgym_trl.trainers import DeepGymGRPOTrainer, DeepGymRLOOTrainer

N = None
#: One group of eight, four of them on each rank.
OUTAGES: dict[str, lab.Rewards] = {
    "outage on one rank": (1, 0, 0.5, 1, N, 0.25, N, 0),
    "a rank without a verdict": (1, 0, 0.5, 0.25, N, N, N, N),
    "no verdict at all": (N,) * 8,
}
PLAIN: dict[str, Any] = {"beta": 0.05}
if lab.TRL >= (1, 8):
    PLAIN |= {"entropy_coef": 0.1, "_entropy_bonus_enabled": True}
GRPO = [
    lab.Case(f"{loss}, {name}", rewards, {**PLAIN, "loss_type": loss})
    for loss in ("dapo", "grpo", "bnpo")
    for name, rewards in OUTAGES.items()
]
#: Without the entropy bonus, whose mean over tokens is taken by micro-batch.
MICRO = [
    lab.Case(f"{loss}, {name}", rewards, {"beta": 0.05, "loss_type": loss})
    for loss in ("dapo", "grpo")
    for name, rewards in OUTAGES.items()
]
RLOO = [lab.Case(name, rewards, {"normalize_advantages": True}) for name, rewards in OUTAGES.items()]
SIZES = {"num_generations": 8, "beta": 0.05}


def main(model: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    records = {
        "grpo": lab.train(
            "grpo",
            model,
            folder / "grpo",
            GRPO,
            base=DeepGymGRPOTrainer,
            per_device_train_batch_size=4,
            **SIZES,
        ),
        "micro": lab.train(
            "grpo",
            model,
            folder / "micro",
            MICRO,
            base=DeepGymGRPOTrainer,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            **SIZES,
        ),
        "rloo": lab.train(
            "rloo",
            model,
            folder / "rloo",
            RLOO,
            base=DeepGymRLOOTrainer,
            per_device_train_batch_size=4,
            **SIZES,
        ),
    }
    seen = {
        name: {"batches": record.batches, "gradients": record.gradients, "logs": record.logs}
        for name, record in records.items()
    }
    torch.save(seen, folder / f"rank-{os.environ['RANK']}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
