"""Gymnasium's ids of the built-in environments."""

from __future__ import annotations

from gymnasium.envs import registration

from deepgym.environments import list_environments, list_multi_turn_environments

__all__ = ["register"]


def register() -> None:
    """Register each built-in environment as ``deepgym/<name>-v0``, without reading it; again is harmless."""
    for name in (*list_environments(), *list_multi_turn_environments()):
        known = f"deepgym/{name}-v0"
        if known not in registration.registry:
            registration.register(id=known, entry_point="deepgym.env:DeepGymEnv", kwargs={"env": name})
