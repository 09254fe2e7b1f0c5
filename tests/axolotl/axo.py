"""Axolotl's own command line, run in this process: one import of it for all tests."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from deepgym_axolotl import reward

PLUGIN = "deepgym_axolotl.DeepGymPlugin"
REWARD = "deepgym_axolotl.reward"

#: An environment whose score is read off the answer's text, in steps of a quarter.
TOML = """\
name = "letters"
task = "Write."
reference = "reference.py"

[verify]
kind = "program"
program = "verify.py"
"""
VERIFY = """\
def verify(solution):
    return sum(solution.source().encode("utf-8", "replace")) % 5 / 4
"""


def letters(folder: Path) -> str:
    """Path of that environment."""
    folder.mkdir(parents=True)
    (folder / "environment.toml").write_text(TOML)
    (folder / "verify.py").write_text(VERIFY)
    (folder / "reference.py").write_text("\x04")
    return str(folder)


def base(model: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """A run on the CPU, three steps of two groups of four, with the keys of ``changes`` on top."""
    trl = {"reward_funcs": [REWARD], "num_generations": 4, "max_completion_length": 6, "beta": 0.0}
    return {
        "base_model": model,
        "rl": "grpo",
        "plugins": [PLUGIN],
        "trl": {**trl, **changes.pop("trl", {})},
        "micro_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "max_steps": 3,
        "learning_rate": 1e-3,
        "optimizer": "adamw_torch",
        "lr_scheduler": "constant",
        "sequence_len": 256,
        "use_cpu": True,
        # Workers would be forked from a process full of threads, in which locks are held: they may hang.
        "dataloader_num_workers": 0,
        "bf16": False,
        "fp16": False,
        "tf32": False,
        "attn_implementation": "eager",
        "logging_steps": 1,
        "save_strategy": "no",
        "output_dir": str(folder / "out"),
        "dataset_prepared_path": str(folder / "prepared"),
        **changes,
    }


@dataclass
class Batch:
    """What a trainer made of one generation batch."""

    rewards: list[float]
    advantages: list[float]
    texts: list[str]
    counted: list[float]
    items: float


@dataclass
class Run:
    """What a run left behind."""

    trainer: Any = None
    batches: list[Batch] = field(default_factory=list)

    @property
    def logs(self) -> list[dict[str, Any]]:
        """What was logged at each step."""
        return [entry for entry in self.trainer.state.log_history if "reward" in entry]

    def groups(self, size: int = 4) -> Iterator[tuple[list[float], list[float]]]:
        """Rewards and advantages of each group."""
        for batch in self.batches:
            for start in range(0, len(batch.rewards), size):
                yield batch.rewards[start : start + size], batch.advantages[start : start + size]


def recorder(run: Run, touch: Callable[[Any], None] | None = None) -> types.ModuleType:
    """A module with an Axolotl plugin that writes down what the trainer computes."""
    from axolotl.integrations.base import BasePlugin

    class Recorder(BasePlugin):
        def post_trainer_create(self, cfg: Any, trainer: Any) -> None:
            run.trainer = trainer
            rewards: list[Any] = []
            calculate, score = trainer._calculate_rewards, trainer._generate_and_score_completions

            def calculated(*args: Any) -> Any:
                rewards[:] = [calculate(*args)]
                return rewards[0]

            def scored(inputs: Any) -> Any:
                out = score(inputs)
                run.batches.append(_batch(trainer, out, rewards[0]))
                return out

            trainer._calculate_rewards, trainer._generate_and_score_completions = calculated, scored
            if touch is not None:
                touch(trainer)

    module = types.ModuleType("recording")
    module.Recorder = Recorder  # type: ignore[attr-defined]
    return module


def _batch(trainer: Any, out: dict[str, Any], rewards: Any) -> Batch:
    mask = out["completion_mask"] * out.get("tool_mask", 1)
    texts = trainer.processing_class.batch_decode(out["completion_ids"], skip_special_tokens=True)
    return Batch(
        rewards=rewards.nansum(dim=1).masked_fill(rewards.isnan().all(dim=1), float("nan")).tolist(),
        advantages=out["advantages"].tolist(),
        texts=texts,
        counted=mask.sum(dim=1).tolist(),
        items=float(out["num_items_in_batch"]),
    )


@contextmanager
def fresh() -> Iterator[None]:
    """Axolotl's plugins and our set-up as in a new process."""
    from axolotl.integrations.base import PluginManager

    with pytest.MonkeyPatch.context() as patch:
        PluginManager.get_instance().plugins.clear()
        patch.setattr(sys, "argv", ["axolotl"])
        patch.setenv("DEEPGYM_AXOLOTL", "")
        try:
            yield
        finally:
            reward.close()


def write(cfg: dict[str, Any], folder: Path) -> Path:
    """The run's file."""
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(cfg))
    return path


def load(cfg: dict[str, Any], folder: Path) -> Any:
    """What ``axolotl train`` makes of the run's file, before it trains."""
    from axolotl.cli.config import load_cfg

    with fresh():
        return load_cfg(str(write(cfg, folder)))


def train(
    cfg: dict[str, Any], folder: Path, touch: Callable[[Any], None] | None = None, **modules: types.ModuleType
) -> Run:
    """``axolotl train run.yaml``, in this process."""
    from axolotl.cli.train import do_cli

    run = Run()
    modules = {"recording": recorder(run, touch), **modules}
    cfg = {**cfg, "plugins": [*cfg.get("plugins", ()), "recording.Recorder"]}
    with fresh(), pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        do_cli(str(write(cfg, folder)))
    return run
