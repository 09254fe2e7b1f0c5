"""DeepGym turns a model's answer into a reward that training can trust.

A run either has a verdict or it has none: no verdict means that our side failed, and the sample
stays out of training. The names below are imported when they are first used, so that
``import deepgym`` costs a trainer nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym, DeepGym
    from deepgym.env import AsyncDeepGymEnv, DeepGymEnv
    from deepgym.environments import (
        Case,
        Cases,
        Environment,
        MultiTurnEnvironment,
        Program,
        list_environments,
        list_multi_turn_environments,
        load_environment,
        load_multi_turn_environment,
        load_suite,
    )
    from deepgym.models import BatchResult, EvalResult, RunResult
    from deepgym.rewards import AsyncRewardFunction, RewardFunction

    __version__: str

__all__ = [
    "AsyncDeepGym",
    "AsyncDeepGymEnv",
    "AsyncRewardFunction",
    "BatchResult",
    "Case",
    "Cases",
    "DeepGym",
    "DeepGymEnv",
    "Environment",
    "EvalResult",
    "MultiTurnEnvironment",
    "Program",
    "RewardFunction",
    "RunResult",
    "__version__",
    "list_environments",
    "list_multi_turn_environments",
    "load_environment",
    "load_multi_turn_environment",
    "load_suite",
]

_HOMES = {
    "AsyncDeepGym": "client",
    "AsyncDeepGymEnv": "env",
    "AsyncRewardFunction": "rewards",
    "BatchResult": "models",
    "Case": "environments",
    "Cases": "environments",
    "DeepGym": "client",
    "DeepGymEnv": "env",
    "Environment": "environments",
    "EvalResult": "models",
    "MultiTurnEnvironment": "environments",
    "Program": "environments",
    "RewardFunction": "rewards",
    "RunResult": "models",
    "list_environments": "environments",
    "list_multi_turn_environments": "environments",
    "load_environment": "environments",
    "load_multi_turn_environment": "environments",
    "load_suite": "environments",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("deepgym")
    elif name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f"deepgym.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'deepgym' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
