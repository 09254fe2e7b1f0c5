"""Which lm-eval this is for, and what to say where it is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from deepgym.exceptions import MissingPackageError

__all__ = ["BELOW", "INSTALL", "LOWEST", "SUPPORTED", "installed", "missing", "numbers"]

INSTALL = 'pip install "deepgym-lmeval[trainer]==1.0.0"'
#: The first version, and the first that is too new.
LOWEST, BELOW = (0, 4, 10), (0, 5)
#: Before 0.4.10 it doesn't run beside transformers 5; 0.5 hands a filter one response at a time.
SUPPORTED = ">=0.4.10,<0.5"


def installed() -> str | None:
    """The version of lm-eval that is installed, or ``None``."""
    try:
        return version("lm-eval")
    except PackageNotFoundError:
        return None


def numbers(text: str) -> tuple[int, ...]:
    """``0.4.13`` as ``(0, 4, 13)``; what stands behind the third number is left out."""
    parts = []
    for part in text.split("+")[0].split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def missing(error: ModuleNotFoundError) -> ImportError:
    """What to raise where lm-eval, or what comes with it, can't be had: the line that installs it."""
    if (error.name or "").startswith("deepgym"):
        return error
    package = (error.name or "a package").partition(".")[0]
    return MissingPackageError(f"{package} isn't installed; run: {INSTALL}")
