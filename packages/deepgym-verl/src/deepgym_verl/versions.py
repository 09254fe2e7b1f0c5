"""Which verl this is for, and what to say where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from deepgym.integrations.checking import numbers, version_of

__all__ = ["INSTALL", "NEEDED", "SUPPORTED", "TRL", "installed", "missing", "numbers", "supported"]

INSTALL = 'pip install "deepgym-verl[trainer]==1.0.0"'
SUPPORTED = ">=0.9,<0.10"
#: Modules that verl's trainers and workers import and that verl doesn't require, with their packages.
NEEDED = {
    "cachetools": "cachetools",
    "fastapi": "fastapi",
    "transfer_queue": "TransferQueue",
    "uvicorn": "uvicorn",
}
#: The first TRL without a class that verl imports from it wherever a TRL is installed.
TRL = (1, 13)


def installed() -> str | None:
    """The version of verl that is installed, or ``None``."""
    return version_of("verl")


def supported(text: str) -> bool:
    """Whether ``text`` is a version that this adapter is for."""
    return text.split(".")[:2] == ["0", "9"]


def missing() -> list[str]:
    """Packages that verl can't train without and that aren't installed, sorted."""
    return sorted(package for module, package in NEEDED.items() if not _is_there(module))


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
