"""Which OpenRLHF this is for, and what to say where it is missing."""

from __future__ import annotations

from deepgym.integrations.checking import numbers, version_of

__all__ = ["DOTTED", "INSTALL", "LOWEST", "SUPPORTED", "installed", "numbers"]

INSTALL = 'pip install "deepgym-openrlhf[trainer]==1.0.0"'
#: The first version that asks for each sample's reward by itself, as a sample's generation ends.
LOWEST = (0, 9, 1)
SUPPORTED = ">=0.9.1"
#: The first version whose flags have dots in their names.
DOTTED = (0, 10, 2)


def installed() -> str | None:
    """The version of OpenRLHF that is installed, or ``None``."""
    return version_of("openrlhf")
