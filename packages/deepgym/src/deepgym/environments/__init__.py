"""Environments: tasks as data, the built-in ones, and suites of them."""

from __future__ import annotations

from deepgym.environments.environment import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.environments.registry import list_environments, load_environment
from deepgym.environments.suites import Suite, load_suite

__all__ = [
    "Case",
    "Cases",
    "Environment",
    "EnvironmentLimits",
    "Program",
    "Suite",
    "list_environments",
    "load_environment",
    "load_suite",
]
