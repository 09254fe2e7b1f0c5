"""What torchrun starts twice: `alarm.py MODEL FOLDER` trains with an outage on rank 1 alone, with the alarm set.

Each rank leaves what it saw in FOLDER/rank-N.json.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from datasets import Dataset

import trl
from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, SCRIPT, WRONG
from deepgym_trl import CompositeReward, MaskedRateCallback, TRLReward

OURS = GOOD + "\n# the provider fails this one"
RANK = int(os.environ["RANK"])
#: Of two rows a step: in every second step rank 1 has no verdict at all.
ANSWERS = ([GOOD, WRONG, WRONG, GOOD], [OURS, GOOD, OURS, OURS])[RANK]


class Script:
    asked = 0

    def __call__(self, completion: Any) -> str:
        self.asked += 1
        return ANSWERS[(self.asked - 1) % len(ANSWERS)]


class Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def formatted(completions: Any, **call: Any) -> list[float]:
    return [0.5] * len(completions)


async def formatted_later(completions: Any, **call: Any) -> list[float]:
    await asyncio.sleep(0)
    return [0.25] * len(completions)


def main(model: str, folder: Path) -> None:
    warnings.simplefilter("ignore")
    said = Said()
    logging.getLogger("deepgym_trl").addHandler(said)
    provider = FaultyProvider(
        FakeProvider({**SCRIPT, OURS: SCRIPT[GOOD]}), Fault("network", Phase.IN_PLAY), answers={OURS}
    )
    with DeepGym(provider=provider) as dg:
        reward = TRLReward(ADD, dg=dg, extract=Script())
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=CompositeReward(reward, formatted, formatted_later),
            args=trl.GRPOConfig(
                output_dir=str(folder / "run"),
                per_device_train_batch_size=2,
                num_generations=4,
                max_completion_length=4,
                max_steps=8,
                logging_steps=1,
                report_to=[],
                save_strategy="no",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list([{"prompt": f"task {row}"} for row in range(16)]),
            callbacks=[MaskedRateCallback(window=8, stop_above=0.2, patience=2)],
        )
        trainer.train()
    seen = {
        "step": trainer.state.global_step,
        "said": said.lines,
        "logs": [
            {key: value for key, value in line.items() if key.startswith("deepgym/") and key[-2:] != "_s"}
            for line in trainer.state.log_history
            if "loss" in line
        ],
    }
    (folder / f"rank-{RANK}.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
