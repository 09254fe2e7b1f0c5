"""Which Axolotl brings a TRL that leaves a row without any reward out of its group."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

__all__ = ["FIRST", "axolotl", "installed", "masks"]

#: From here on Axolotl pins TRL 1.8 or later.
FIRST = (0, 18)


def installed(package: str) -> str | None:
    """The version of a package that is installed, or ``None``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def axolotl() -> tuple[int, ...] | None:
    """The first two numbers of the installed Axolotl's version, or ``None``."""
    found = installed("axolotl")
    return None if found is None else _numbers(found)


def masks(found: str) -> bool:
    """Whether the synchronous trainer of Axolotl ``found`` leaves rows without a verdict out."""
    return _numbers(found) >= FIRST


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:2])
