"""A name that OpenRLHF imports."""

from __future__ import annotations

import uuid

__all__ = ["random_uuid"]


def random_uuid() -> str:
    return uuid.uuid4().hex
