"""The clients that people call."""

from __future__ import annotations

from deepgym.client.asynchronous import AsyncDeepGym
from deepgym.client.synchronous import DeepGym

__all__ = ["AsyncDeepGym", "DeepGym"]
