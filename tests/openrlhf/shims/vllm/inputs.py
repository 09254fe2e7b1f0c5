"""A name that OpenRLHF imports."""

from __future__ import annotations

from typing import Any

__all__ = ["TokensPrompt"]

TokensPrompt = dict[str, Any]
