"""DeepGym rewards for TRL. Importing this loads neither TRL nor torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .callbacks import MaskedRateCallback, RewardListCallback
    from .composite import CompositeReward, gate
    from .dapo import dapo_config, make_dapo_reward_fn
    from .dataset import build_dataset, check_dataset
    from .episodes import make_environment_factory
    from .masking import VerdictMaskMixin
    from .rewards import TRLReward, make_async_trl_reward_fn, make_trl_reward_fn, reward
    from .trainers import DeepGymGRPOTrainer, DeepGymRLOOTrainer
    from .versions import UnsupportedTRLError

_PLACES = {
    "CompositeReward": "composite",
    "DeepGymGRPOTrainer": "trainers",
    "DeepGymRLOOTrainer": "trainers",
    "MaskedRateCallback": "callbacks",
    "RewardListCallback": "callbacks",
    "TRLReward": "rewards",
    "UnsupportedTRLError": "versions",
    "VerdictMaskMixin": "masking",
    "build_dataset": "dataset",
    "check_dataset": "dataset",
    "dapo_config": "dapo",
    "gate": "composite",
    "make_async_trl_reward_fn": "rewards",
    "make_dapo_reward_fn": "dapo",
    "make_environment_factory": "episodes",
    "make_trl_reward_fn": "rewards",
    "reward": "rewards",
}

__all__ = [
    "CompositeReward",
    "DeepGymGRPOTrainer",
    "DeepGymRLOOTrainer",
    "MaskedRateCallback",
    "RewardListCallback",
    "TRLReward",
    "UnsupportedTRLError",
    "VerdictMaskMixin",
    "build_dataset",
    "check_dataset",
    "dapo_config",
    "gate",
    "make_async_trl_reward_fn",
    "make_dapo_reward_fn",
    "make_environment_factory",
    "make_trl_reward_fn",
    "reward",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        from .versions import missing

        raise missing(name, error) from error


def __dir__() -> list[str]:
    return __all__
