"""The Axolotl plugin. Without a ``deepgym:`` section, our reward or our transform in the file, it does
nothing.

touches: ``axolotl.integrations.base.BasePlugin`` (of 0.18 to 0.21),
``axolotl.common.datasets.TrainDatasetMeta``, ``axolotl.loaders.load_tokenizer``; of the trainer
``args.generation_batch_size``, ``num_generations`` and ``accelerator.num_processes``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

from axolotl.integrations.base import BasePlugin

from .judge import grader, reward
from .modes import active, refuse, refuse_trainer
from .rows import dataset_of
from .settings import VARIABLE, ConfigError, Setup

__all__ = ["OURS", "DeepGymPlugin"]

logger = logging.getLogger(__name__)

#: What stands in ``datasets`` of a run whose rows come from the section: Axolotl wants something there.
OURS = {"path": "deepgym", "type": "deepgym_axolotl.transform"}
#: Axolotl's own default for GRPO is 500 steps, in which an alarm is of no use.
LOGGING_STEPS = 10


class DeepGymPlugin(BasePlugin):
    """``plugins: [deepgym_axolotl.DeepGymPlugin]``: the ``deepgym:`` section, its refusals, metrics and
    alarm.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setup: Setup | None = None
        self._ours: set[str] = set()

    def get_input_args(self) -> str:
        """The section's schema."""
        return "deepgym_axolotl.settings.DeepGymArgs"

    def register(self, cfg: MutableMapping[str, Any]) -> None:
        """Take the section in, before the file is validated and anything loaded.

        Raises:
            ConfigError: the section is wrong, or the run would train on what has no verdict.
            ValueError: the deadline doesn't fit between an environment's limits and the ranks' timeout.
            UnknownNameError, InvalidEnvironmentError, MissingPackageError: an environment can't be loaded.
        """
        self.setup = None
        os.environ.pop(VARIABLE, None)
        if not active(cfg):
            return
        setup = Setup.of(cfg)
        refuse(cfg, setup)
        grader(setup)
        if cfg.get("datasets") is None and setup.section.names_environments:
            cfg["datasets"] = [dict(OURS)]
        if "deepgym_axolotl.reward" not in _reward_funcs(cfg):
            logger.warning(
                "trl.reward_funcs (%s) doesn't name deepgym_axolotl.reward; unless one of them calls it, "
                "the deepgym: section says nothing about rewards",
                ", ".join(map(str, _reward_funcs(cfg))),
            )
        self._ours = {*(cfg.get("trl") or {})} | ({"beta"} if cfg.get("rl_beta") is not None else set())
        self.setup = setup
        setup.leave()

    def load_datasets(self, cfg: Any, preprocess: bool = False) -> Any:
        """Rows of the section's environments, if the file has no ``datasets``; else ``None``: Axolotl loads
        those.
        """
        if self.setup is None or [entry["path"] for entry in cfg.datasets or ()] != [OURS["path"]]:
            return None
        from axolotl.common.datasets import TrainDatasetMeta
        from axolotl.loaders import load_tokenizer

        rows = dataset_of(self.setup, load_tokenizer(cfg), _prompts_at_once(cfg, self.setup))
        return TrainDatasetMeta(train_dataset=rows, eval_dataset=None, total_num_steps=None)

    def get_training_args(self, cfg: Any) -> dict[str, Any]:
        """Arguments for the trainer's config: DAPO's, where the file says nothing else, and the alarm's."""
        if self.setup is None:
            return {}
        given: dict[str, Any] = {}
        if self.setup.section.dapo:
            from deepgym_trl.dapo import dapo_settings

            given = {key: value for key, value in dapo_settings().items() if key not in self._ours}
        if cfg.logging_steps is None:
            given["logging_steps"] = LOGGING_STEPS
        return {**given, "ddp_timeout": int(self.setup.ddp_timeout)}

    def post_trainer_create(self, cfg: Any, trainer: Any) -> None:
        """Look at what has come of the file.

        Raises:
            ConfigError: the trainer takes ``None`` for 0, or ``group_mean`` wouldn't see whole groups.
        """
        if self.setup is None:
            return
        refuse_trainer(trainer, self.setup.section)
        rows = trainer.args.generation_batch_size / trainer.accelerator.num_processes
        if self.setup.section.no_verdict == "group_mean" and rows % trainer.num_generations:
            raise ConfigError(
                f"deepgym.no_verdict: group_mean needs all of a group in one process, but each has "
                f"{rows:g} rows of a batch, "
                f"which aren't whole groups of {trainer.num_generations}"
            )

    def add_callbacks_post_trainer(self, cfg: Any, trainer: Any) -> list[Any]:
        """The alarm: a callback that warns, and stops training if it is to, when too much has no verdict."""
        if self.setup is None:
            return []
        from deepgym_trl.callbacks import MaskedRateCallback

        section = self.setup.section
        return [
            MaskedRateCallback(
                limit=section.warn_above, stop_above=section.stop_above, name="deepgym_axolotl"
            )
        ]

    def post_train_unload(self, cfg: Any) -> None:
        """Close the reward function's client."""
        if self.setup is not None:
            reward.close()


def _reward_funcs(cfg: Mapping[str, Any]) -> list[Any]:
    return list((cfg.get("trl") or {}).get("reward_funcs") or ())


def _prompts_at_once(cfg: Any, setup: Setup) -> int:
    """How many prompts a generation batch of all processes holds: with fewer rows there is no batch."""
    rows = (cfg.micro_batch_size or 1) * (cfg.gradient_accumulation_steps or 1)
    rows = (cfg.trl or {}).get("generation_batch_size") or rows * int(os.environ.get("WORLD_SIZE") or 1)
    return int(-(-rows // (setup.num_generations or 1)))
