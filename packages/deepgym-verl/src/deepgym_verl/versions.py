"""Which verl this is for, and what to say where it is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["INSTALL", "SUPPORTED", "installed", "supported"]

INSTALL = 'pip install "deepgym-verl[trainer]==1.0.0"'
SUPPORTED = ">=0.9,<0.10"


def installed() -> str | None:
    """The version of verl that is installed, or ``None``."""
    try:
        return version("verl")
    except PackageNotFoundError:
        return None


def supported(text: str) -> bool:
    """Whether ``text`` is a version that this adapter is for."""
    return text.split(".")[:2] == ["0", "9"]
