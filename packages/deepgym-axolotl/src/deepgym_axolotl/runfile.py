"""A run's YAML file, written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from .settings import ConfigError

__all__ = ["run_file"]

_CPU = """\
# On a CPU. Remove these for a GPU.
use_cpu: true
bf16: false
fp16: false
tf32: false
attn_implementation: eager
optimizer: adamw_torch
"""
_GPU = """\
bf16: auto
gradient_checkpointing: true
"""


def run_file(
    model: str,
    envs: Sequence[str] = (),
    *,
    suite: str | None = None,
    cpu: bool = False,
    masked: bool = False,
    dapo: bool = False,
    group_mean: bool = False,
    num_generations: int = 8,
    max_completion_length: int = 512,
    max_steps: int = 200,
    output_dir: str = "./out",
) -> str:
    """The text of a file that ``axolotl train`` takes as it is, rows and all.

    Raises:
        ConfigError: both ``envs`` and ``suite`` are given, or neither.
    """
    if bool(envs) == (suite is not None):
        raise ConfigError("give environments or a suite, one of the two")
    named = f"suite: {_quoted(suite)}" if suite else f"envs: [{', '.join(_quoted(env) for env in envs)}]"
    lines = [
        f"base_model: {_quoted(model)}",
        "rl: grpo",
        "plugins: [deepgym_axolotl.DeepGymPlugin]",
        *(["trainer_cls: deepgym_axolotl.MaskedGRPOTrainer"] if masked else []),
        "",
        "deepgym:",
        f"  {named}",
        *(["  dapo: true"] if dapo else []),
        *(["  no_verdict: group_mean"] if group_mean else []),
        "",
        "trl:",
        "  reward_funcs: [deepgym_axolotl.reward]",
        f"  num_generations: {num_generations}",
        f"  max_completion_length: {max_completion_length}",
        *([] if dapo else ["  beta: 0.0"]),
        "",
        "# Answers of one step; a multiple of num_generations.",
        f"micro_batch_size: {num_generations}",
        "gradient_accumulation_steps: 1",
        f"max_steps: {max_steps}",
        "learning_rate: 1.0e-6",
        "lr_scheduler: constant",
        "sequence_len: 2048",
        "logging_steps: 1",
        f"output_dir: {_quoted(output_dir)}",
        "",
        (_CPU if cpu else _GPU).rstrip(),
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A name or path as it is where YAML is sure to read it as text, else in quotes."""
    name = re.fullmatch(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", text)
    path = re.fullmatch(r"[A-Za-z.][\w.-]*(?:/[\w.-]+)+", text)
    return text if name or path else json.dumps(text)
