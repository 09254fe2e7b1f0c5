"""A reward function for each environment, by name: ``deepgym_trl.envs.coin_change``.

For ``reward_funcs`` in a YAML file, which can name a module's attribute and nothing more::

    reward_funcs: [deepgym_trl.envs.coin_change]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .rewards import TRLReward


def __getattr__(name: str) -> TRLReward:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deepgym.exceptions import DeepGymError

    from .rewards import TRLReward

    try:
        made = TRLReward(name)
    except DeepGymError as error:
        raise AttributeError(f"{__name__}.{name}: {error}") from error
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    from deepgym.environments import list_environments

    return list_environments()
