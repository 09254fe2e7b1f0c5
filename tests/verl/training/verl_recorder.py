"""Writes down the advantages of each step, which verl doesn't log row by row."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["install"]


def install() -> None:
    """Record what this process's trainer makes of rewards, if it is one."""
    for name in ("verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.utils"):
        module: Any = sys.modules.get(name)
        if module is not None and not hasattr(module.compute_advantage, "inner"):
            module.compute_advantage = _recording(module.compute_advantage)


def _recording(inner: Callable[..., Any]) -> Callable[..., Any]:
    def compute_advantage(data: Any, *args: Any, **options: Any) -> Any:
        made = inner(data, *args, **options)
        with Path(os.environ["DEEPGYM_VERL_ADVANTAGES"]).open("a", encoding="utf-8") as notes:
            notes.write(json.dumps([_row(made, at) for at in range(len(made))]) + "\n")
        return made

    compute_advantage.inner = inner  # type: ignore[attr-defined]
    return compute_advantage


def _row(data: Any, at: int) -> dict[str, Any]:
    mask = data.batch["response_mask"][at].bool()
    advantages = data.batch["advantages"][at][mask]
    one = float(advantages[0]) if len(advantages) else 0.0
    if len(advantages) and not bool((advantages == advantages[0]).all()):
        one = math.nan  # every token of a row has the same
    score = float(data.batch["token_level_scores"][at].sum())
    uid = str(data.non_tensor_batch["uid"][at])
    return {"uid": uid, "score": score, "tokens": int(mask.sum()), "advantage": one}
