"""DeepGym behind Gymnasium's interface: ``DeepGymEnv``, and ``AsyncDeepGymEnv`` with ``await``.

Gymnasium isn't needed. Where it is installed, ``DeepGymEnv`` is a ``gymnasium.Env`` with spaces, and the
import of this package registers the built-in environments: ``gymnasium.make("deepgym/coin_change-v0")``.
"""

from __future__ import annotations

from deepgym.env.asynchronous import AsyncDeepGymEnv
from deepgym.env.base import HAS_GYMNASIUM
from deepgym.env.info import Info
from deepgym.env.synchronous import DeepGymEnv

__all__ = ["AsyncDeepGymEnv", "DeepGymEnv", "Info"]

if HAS_GYMNASIUM:
    from deepgym.env.ids import register

    register()
