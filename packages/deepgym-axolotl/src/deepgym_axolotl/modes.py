"""The modes in which Axolotl turns a reward of ``None`` into 0, and what a run that asks for one is told.

Read in the sources of Axolotl 0.18 to 0.21: the synchronous GRPO trainer leaves advantages to TRL, which
masks rows; the asynchronous and the sequence-parallel one compute them anew, with a plain ``nansum``.

touches: AsyncGRPOTrainer (args.use_data_producer, args.async_prefetch), AxolotlGRPOSequenceParallelTrainer,
AxolotlGRPOContextParallelTrainer (their names).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import versions
from .settings import ConfigError, DeepGymSection, Setup

__all__ = ["TOUCHES", "Refusal", "active", "refusals", "refuse", "refuse_trainer"]

TOUCHES = (
    "axolotl.core.trainers.grpo.async_trainer.AsyncGRPOTrainer",
    "axolotl.core.trainers.grpo.fast_async_trainer.FastAsyncGRPOTrainer",
)
_PRODUCERS = ("use_data_producer", "async_prefetch")
_PARALLEL = ("AxolotlGRPOSequenceParallelTrainer", "AxolotlGRPOContextParallelTrainer")
_INSTEAD = "or set deepgym.no_verdict: group_mean, so that it gets the mean of its judged siblings"
_ZERO = "a run without a verdict would be trained on as a wrong answer"
_SUMS = f"which sums rewards with None as 0, so that {_ZERO}"


class Refusal(NamedTuple):
    """Why a run can't be trained like this, and what to do about it."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.remedy}"


def active(cfg: Mapping[str, Any]) -> bool:
    """Whether a run has anything to do with DeepGym: the section, our reward function or our transform."""
    names = [*((cfg.get("trl") or {}).get("reward_funcs") or ())]
    names += [entry.get("type") for entry in cfg.get("datasets") or () if isinstance(entry, Mapping)]
    ours = any(isinstance(name, str) and name.startswith("deepgym_axolotl.") for name in names)
    return ours or cfg.get("deepgym") is not None


def refuse(cfg: Mapping[str, Any], setup: Setup) -> None:
    """Stop a run that would train on outages.

    Raises:
        ConfigError: with every reason and its remedy.
    """
    if found := [str(refusal) for refusal in refusals(cfg, setup)]:
        raise ConfigError("DeepGym can't be used in this run. " + ". ".join(found))


def refusals(
    cfg: Mapping[str, Any], setup: Setup, *, axolotl: str | None = None, processes: int | None = None
) -> Iterator[Refusal]:
    """What stands against a run; nothing if its rewards can be trusted.

    ``axolotl`` and ``processes`` are this process's own if they aren't given.
    """
    if (rl := getattr(cfg.get("rl"), "value", cfg.get("rl"))) not in ("grpo", "gdpo"):
        yield Refusal(f"rl: {rl} calls no reward function", "set rl: grpo")
    if setup.section.dapo and setup.section.soft_punish_cache != 0 and not setup.max_completion_length:
        yield Refusal(
            "deepgym.dapo punishes answers near trl.max_completion_length, which isn't set",
            "set it to a number",
        )
    if setup.section.no_verdict == "group_mean":
        yield from _split_groups(cfg, setup, processes or int(os.environ.get("WORLD_SIZE") or 1))
        return
    found = axolotl or versions.version_of("axolotl")
    if found is not None and not versions.masks(found):
        yield Refusal(
            f"Axolotl {found} pins a TRL in which None is a reward of 0, so that {_ZERO}",
            f"upgrade to 0.18 or later, {_INSTEAD}",
        )
    yield from _asynchronous(cfg.get("trl") or {})
    keys = ("context_parallel_size", "sequence_parallel_degree")
    for key in [key for key in keys if (cfg.get(key) or 1) > 1][:1]:
        yield Refusal(
            f"{key}: {cfg[key]} means Axolotl's sequence-parallel trainer, {_SUMS}",
            f"remove it, {_INSTEAD}",
        )


def refuse_trainer(trainer: Any | None, section: DeepGymSection) -> None:
    """The same for the trainer that a run has come to, however it was configured.

    Raises:
        ConfigError: the trainer takes ``None`` for 0.
    """
    if trainer is None or section.no_verdict != "none":
        return
    classes = {kind.__name__ for kind in type(trainer).__mro__}
    keys = [key for key in _PRODUCERS if getattr(trainer.args, key, False)]
    if "AsyncGRPOTrainer" in classes and keys:
        what = _listed(keys)
    elif parallel := classes.intersection(_PARALLEL):
        what = parallel.pop()
    else:
        return
    raise ConfigError(f"{what} means a trainer {_SUMS}: remove it, {_INSTEAD}")


def _listed(keys: Sequence[str]) -> str:
    return " with ".join(f"trl.{key}" for key in keys)


def _asynchronous(trl: Mapping[str, Any]) -> Iterator[Refusal]:
    keys = [key for key in _PRODUCERS if trl.get(key)]
    if keys:
        yield Refusal(
            f"{_listed(keys)} means Axolotl's asynchronous trainer, {_SUMS}",
            f"remove it, {_INSTEAD}",
        )
    if (workers := trl.get("reward_num_workers") or 1) > 1:
        yield Refusal(
            f"trl.reward_num_workers: {workers} is for Axolotl's asynchronous trainer alone, {_SUMS}",
            f"remove it (deepgym.max_parallel says how many runs go at once), {_INSTEAD}",
        )


def _split_groups(cfg: Mapping[str, Any], setup: Setup, processes: int) -> Iterator[Refusal]:
    size = setup.num_generations
    if size is None:
        yield Refusal(
            "deepgym.no_verdict: group_mean has to know how large a group is", "set trl.num_generations"
        )
        return
    rows = (cfg.get("micro_batch_size") or 1) * (cfg.get("gradient_accumulation_steps") or 1)
    said = "micro_batch_size x gradient_accumulation_steps"
    if total := (cfg.get("trl") or {}).get("generation_batch_size"):
        rows, said = total / processes, f"trl.generation_batch_size / {processes} processes"
    if rows % size:
        yield Refusal(
            f"deepgym.no_verdict: group_mean needs all of a group in one process, but {said} = {rows:g} "
            "rows, which aren't whole groups",
            f"choose a multiple of trl.num_generations={size}",
        )
