"""Which Axolotl brings a TRL that leaves a row without any reward out of its group."""

from __future__ import annotations

from deepgym.integrations.checking import numbers, version_of

__all__ = ["FIRST", "axolotl", "masks", "version_of"]

#: From here on Axolotl pins TRL 1.8 or later.
FIRST = (0, 18)


def axolotl() -> tuple[int, ...] | None:
    """The first two numbers of the installed Axolotl's version, or ``None``."""
    found = version_of("axolotl")
    return None if found is None else numbers(found)[:2]


def masks(found: str) -> bool:
    """Whether the synchronous trainer of Axolotl ``found`` leaves rows without a verdict out."""
    return numbers(found)[:2] >= FIRST
