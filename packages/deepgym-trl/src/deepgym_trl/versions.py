"""Which TRL masks a row whose reward is ``None``."""

from __future__ import annotations

from deepgym.exceptions import DeepGymError, MissingPackageError
from deepgym.integrations.checking import numbers, version_of

__all__ = ["FIRST", "INSTALL", "UnsupportedTRLError", "installed", "masks", "missing", "require_masking"]

INSTALL = 'pip install "deepgym-trl[trainer]==1.0.0"'

#: From here on a row is left out of its group's baseline if every reward function returned ``None`` for it.
FIRST = (1, 6)
#: Can't train where triton isn't installed.
BROKEN = (1, 15, 0)


class UnsupportedTRLError(DeepGymError, ImportError):
    """The installed TRL trains on a run without a verdict as if its reward were 0."""


def installed() -> str | None:
    """The version of TRL that is installed, or ``None``."""
    return version_of("trl")


def masks(found: str) -> bool:
    """Whether TRL of the version ``found`` leaves a row without any reward out of its group."""
    return numbers(found)[:2] >= FIRST


def missing(what: str, error: ModuleNotFoundError) -> ImportError:
    """What to raise where ``what`` can't be had for want of a package: the line that installs it."""
    if (error.name or "").startswith("deepgym"):
        return error
    package = (error.name or "a package").partition(".")[0]
    return MissingPackageError(f"deepgym_trl.{what} needs {package}, which isn't installed; run: {INSTALL}")


def require_masking() -> None:
    """Make sure that the installed TRL, if there is one, masks ``None``.

    Raises:
        UnsupportedTRLError: it doesn't; the message has the line that installs one that does.
    """
    found = installed()
    if found is not None and not masks(found):
        raise UnsupportedTRLError(
            f"TRL {found} turns a reward of None into 0, so that an outage is trained on as a wrong answer; "
            'TRL 1.6 and later leave the row out: pip install "trl>=1.6,!=1.15.0"'
        )
