"""Exit codes, and which of them an outcome has."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from deepgym.exceptions import DeepGymError, NoVerdictError, SandboxError, TimeoutError, VerifierError

if TYPE_CHECKING:
    from deepgym.models import BatchResult

__all__ = ["ExitCode", "UsageError", "of_batch", "of_error"]


class ExitCode(IntEnum):
    """What the process exits with."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    NO_VERDICT = 3
    INTERRUPTED = 130


class UsageError(DeepGymError):
    """What was asked can't be done as asked; the message says what would do."""


def of_batch(batch: BatchResult) -> ExitCode:
    """``NO_VERDICT`` if any run has none, else ``FAILED`` if any failed, else ``PASSED``."""
    if batch.no_verdict_count:
        return ExitCode.NO_VERDICT
    return ExitCode.FAILED if batch.failed else ExitCode.PASSED


def of_error(error: DeepGymError) -> ExitCode:
    """``NO_VERDICT`` for what kept a run from being judged, ``USAGE`` for everything else."""
    unjudged = (SandboxError, TimeoutError, VerifierError, NoVerdictError)
    return ExitCode.NO_VERDICT if isinstance(error, unjudged) else ExitCode.USAGE
