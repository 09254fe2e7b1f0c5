"""DeepGym's benchmarks for lm-evaluation-harness. Importing this loads neither lm_eval nor datasets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .making import make_lm_eval_task, task_manager
    from .names import folder as tasks_folder
    from .regrading import regrade

_PLACES = {
    "make_lm_eval_task": ("making", "make_lm_eval_task"),
    "regrade": ("regrading", "regrade"),
    "task_manager": ("making", "task_manager"),
    "tasks_folder": ("names", "folder"),
}

__all__ = ["make_lm_eval_task", "regrade", "task_manager", "tasks_folder"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return __all__
