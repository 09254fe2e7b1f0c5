"""Which OpenRLHF this is for, and what to say where it is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["DOTTED", "INSTALL", "LOWEST", "SUPPORTED", "installed", "numbers"]

INSTALL = 'pip install "deepgym-openrlhf[trainer]==1.0.0"'
#: The first version that asks for each sample's reward by itself, as a sample's generation ends.
LOWEST = (0, 9, 1)
SUPPORTED = ">=0.9.1"
#: The first version whose flags have dots in their names.
DOTTED = (0, 10, 2)


def installed() -> str | None:
    """The version of OpenRLHF that is installed, or ``None``."""
    try:
        return version("openrlhf")
    except PackageNotFoundError:
        return None


def numbers(text: str) -> tuple[int, ...]:
    """``0.10.1.post2`` as ``(0, 10, 1)``; empty if it begins otherwise."""
    parts = []
    for part in text.split("+")[0].split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
