"""Rows for training: Axolotl's dataset transform, and rows of the environments that the section names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .judge import grader, reward
from .modes import refuse
from .settings import ConfigError, Setup

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["dataset_of", "transform"]


def transform(cfg: Mapping[str, Any], *args: Any, **options: Any) -> Callable[..., dict[str, Any]]:
    """For ``datasets: [{type: deepgym_axolotl.transform}]``: a row's ``prompt``, made of its environment.

    A row that has a prompt keeps it; all other columns stay. Each row is checked as the reward function will.
    """
    setup = Setup.current()
    ours = "deepgym_axolotl.reward" in ((cfg.get("trl") or {}).get("reward_funcs") or ())
    checked: list[bool] = []

    def row(example: dict[str, Any], tokenizer: Any = None) -> dict[str, Any]:
        # Not above: of what is raised there Axolotl says no more than that there is no such transform.
        if not checked:
            refuse(cfg, setup)
            checked.append(True)
        if ours:
            reward.check_row({name: value for name, value in example.items() if name != "prompt"})
        return {"prompt": example.get("prompt") or _prompt(example, setup, tokenizer)}

    return row


def dataset_of(setup: Setup, tokenizer: Any, least: int) -> Dataset:
    """A dataset with the section's environments in turn, at least ``least`` rows of them.

    Raises:
        ValueError: the section names no environments.
    """
    from datasets import Dataset

    from deepgym_trl.dataset import prompt_rows

    rows = prompt_rows(
        grader(setup).rows.declared, text=_as_text(tokenizer), env_column=setup.section.env_column
    )
    return Dataset.from_list(rows * max(1, math.ceil(least / len(rows))))


def _prompt(example: Mapping[str, Any], setup: Setup, tokenizer: Any) -> str | list[dict[str, str]]:
    from deepgym_trl.dataset import prompt_rows

    column = setup.section.env_column
    name = setup.section.env or example.get(column)
    if not isinstance(name, str):
        raise ConfigError(
            f"a row has neither a prompt nor, in the column {column!r}, an environment to take one from (its "
            f"columns: {', '.join(sorted(example))}); add one, or set deepgym.env or deepgym.env_column"
        )
    known = {env.name: env for env in grader(setup).rows.declared}
    env = known.get(name, name)
    prompt: str | list[dict[str, str]] = prompt_rows(env, text=_as_text(tokenizer))[0]["prompt"]
    return prompt


def _as_text(tokenizer: Any) -> bool:
    return tokenizer is not None and not getattr(tokenizer, "chat_template", None)
