"""A run's limits: the environment's, its times multiplied where this host needs it."""

from __future__ import annotations

from deepgym.environments.environment import EnvironmentLimits
from deepgym.providers.base import Limits

__all__ = ["bounds", "scaled"]


def scaled(limits: EnvironmentLimits, scale: float) -> EnvironmentLimits:
    """``limits`` with ``wall``, ``cpu`` and ``case_timeout`` multiplied; itself if ``scale`` is 1."""
    if scale == 1.0:
        return limits
    times = {name: getattr(limits, name) for name in ("wall", "cpu", "case_timeout")}
    return limits.model_copy(
        update={name: value * scale for name, value in times.items() if value is not None}
    )


def bounds(limits: EnvironmentLimits) -> Limits:
    """What a provider is told of them."""
    return Limits(
        wall=limits.wall,
        cpu=limits.cpu_seconds,
        memory=limits.memory,
        processes=limits.processes,
        open_files=limits.open_files,
        file_size=limits.file_size,
        disk=limits.disk,
        files=limits.files,
        output=limits.output,
    )
