"""Sessions: episodes in which an agent acts, and the contract's rule for what goes wrong in them."""

from __future__ import annotations

from deepgym.session.failures import failure_result
from deepgym.session.records import Observation, Reply, Trajectory, Turn
from deepgym.session.session import AsyncSession

__all__ = ["AsyncSession", "Observation", "Reply", "Trajectory", "Turn", "failure_result"]
