"""Stands in for vLLM, which has no build for CPUs, so that OpenRLHF's modules can be imported."""

from __future__ import annotations

from typing import Any

__all__ = ["SamplingParams"]

__version__ = "0.29.0"


class SamplingParams:
    """Holds what it is given."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)
