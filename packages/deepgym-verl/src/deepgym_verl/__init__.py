"""DeepGym rewards for verl. Importing this loads neither verl, torch nor Ray."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recipe import overrides
    from .reward import compute_score, make_verl_compute_score
    from .reward_fn import make_verl_reward_fn
    from .rows import verl_rows, write_parquet

_PLACES = {
    "compute_score": "reward",
    "make_verl_compute_score": "reward",
    "make_verl_reward_fn": "reward_fn",
    "overrides": "recipe",
    "verl_rows": "rows",
    "write_parquet": "rows",
}

__all__ = [
    "compute_score",
    "make_verl_compute_score",
    "make_verl_reward_fn",
    "overrides",
    "verl_rows",
    "write_parquet",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
