"""What ``check`` starts in a process of its own: the installed Axolotl, asked what it makes of this package.

``python -m deepgym_axolotl.probe answer.json`` writes one JSON object: for each question its answer, or
``{"error": ...}``. The trainers run on a model with random weights; nothing is downloaded.

touches: ``GRPOStrategy.get_reward_func``, ``prompt_strategies.base.load``, ``load_plugin``, ``BasePlugin``,
``AxolotlGRPOTrainer``, ``AxolotlGRPOConfig``.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]


def main(path: str) -> None:
    """Answer all questions into the file ``path``. A question that raises has its error as its answer."""
    questions: dict[str, Callable[[], Any]] = {
        "reward": reward_is_found,
        "transform": transform_is_found,
        "plugin": strange_methods,
        "siblings": siblings,
        "mask": masked_tokens,
    }
    Path(path).write_text(
        json.dumps({name: _answered(ask) for name, ask in questions.items()}), encoding="utf-8"
    )


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever Axolotl raises here is what was asked
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def reward_is_found() -> bool:
    """Whether Axolotl loads ``deepgym_axolotl.reward`` by its name."""
    from axolotl.core.trainers.grpo import GRPOStrategy

    from deepgym_axolotl import reward

    return GRPOStrategy.get_reward_func("deepgym_axolotl.reward") is reward


def transform_is_found() -> bool:
    """Whether Axolotl loads ``deepgym_axolotl.transform`` by its name."""
    from axolotl.prompt_strategies.base import load

    return callable(load("deepgym_axolotl.transform", {}))


def strange_methods() -> list[str]:
    """Methods of the plugin that Axolotl doesn't know, or would call with other arguments."""
    from axolotl.integrations.base import BasePlugin, load_plugin

    plugin = load_plugin("deepgym_axolotl.DeepGymPlugin")
    ours = {name: value for name, value in vars(type(plugin)).items() if callable(value) and name[0] != "_"}
    return sorted(name for name, value in ours.items() if not _fits(value, getattr(BasePlugin, name, None)))


def _fits(ours: Callable[..., Any], theirs: Callable[..., Any] | None) -> bool:
    return theirs is not None and list(inspect.signature(ours).parameters) == list(
        inspect.signature(theirs).parameters
    )


def siblings() -> dict[str, list[float]]:
    """Advantages, by Axolotl's own trainer, of a group with an outage in it, and of the group without that
    row.
    """
    from axolotl.core.trainers.grpo.args import AxolotlGRPOConfig
    from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer

    from deepgym_trl.probe import GROUP, step

    judged = [reward for reward in GROUP if reward is not None]
    return {
        name: step(AxolotlGRPOTrainer, AxolotlGRPOConfig, _judge(rewards), len(rewards))
        for name, rewards in {"with": GROUP, "without": judged}.items()
    }


def masked_tokens() -> list[float]:
    """Tokens of each row of that group that ``MaskedGRPOTrainer`` leaves in the loss."""
    from axolotl.core.trainers.grpo.args import AxolotlGRPOConfig

    from deepgym_axolotl import MaskedGRPOTrainer
    from deepgym_trl.probe import GROUP, outputs

    batch = outputs(MaskedGRPOTrainer, AxolotlGRPOConfig, _judge(GROUP), len(GROUP))
    counted: list[float] = (batch["completion_mask"] * batch["tool_mask"]).sum(1).tolist()
    return counted


def _judge(rewards: Sequence[float | None]) -> Callable[..., list[float | None]]:
    def judge(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        return list(rewards)

    return judge


if __name__ == "__main__":
    main(sys.argv[1])
