"""Which lm-eval this is for, and what to say where it is missing."""

from __future__ import annotations

from deepgym.exceptions import MissingPackageError
from deepgym.integrations.checking import numbers, version_of

__all__ = ["BELOW", "INSTALL", "LOWEST", "SUPPORTED", "installed", "missing", "numbers"]

INSTALL = 'pip install "deepgym-lmeval[trainer]==1.0.0"'
#: The first version, and the first that is too new.
LOWEST, BELOW = (0, 4, 10), (0, 5)
#: Before 0.4.10 it doesn't run beside transformers 5; 0.5 hands a filter one response at a time.
SUPPORTED = ">=0.4.10,<0.5"


def installed() -> str | None:
    """The version of lm-eval that is installed, or ``None``."""
    return version_of("lm-eval")


def missing(error: ModuleNotFoundError) -> ImportError:
    """What to raise where lm-eval, or what comes with it, can't be had: the line that installs it."""
    if (error.name or "").startswith("deepgym"):
        return error
    package = (error.name or "a package").partition(".")[0]
    return MissingPackageError(f"{package} isn't installed; run: {INSTALL}")
