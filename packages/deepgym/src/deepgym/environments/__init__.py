"""Environments: tasks as data, the built-in ones, and suites of them."""

from __future__ import annotations

from deepgym.environments.environment import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.environments.multi_turn import EpisodeLimits, MultiTurnEnvironment
from deepgym.environments.registry import (
    list_environments,
    list_multi_turn_environments,
    load_environment,
    load_multi_turn_environment,
)
from deepgym.environments.suites import Suite, load_suite
from deepgym.environments.tools import ToolCall

__all__ = [
    "Case",
    "Cases",
    "Environment",
    "EnvironmentLimits",
    "EpisodeLimits",
    "MultiTurnEnvironment",
    "Program",
    "Suite",
    "ToolCall",
    "list_environments",
    "list_multi_turn_environments",
    "load_environment",
    "load_multi_turn_environment",
    "load_suite",
]
