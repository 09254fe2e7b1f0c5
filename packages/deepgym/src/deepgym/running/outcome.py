"""What a single run gives its caller: a result, or the error that says why nothing was judged."""

from __future__ import annotations

from deepgym.contract.evidence import Evidence
from deepgym.contract.verdict import judge
from deepgym.exceptions import SandboxError, TimeoutError, VerifierError
from deepgym.models import RunResult

__all__ = ["result_or_raise"]


def result_or_raise(evidence: Evidence) -> RunResult:
    """The verdict; or a result without one where the verifier itself said that it failed.

    Raises:
        SandboxError, TimeoutError, VerifierError: any other run without a verdict, its result attached.
    """
    result, verifier = judge(evidence), evidence.verifier
    said_so = verifier is not None and (verifier.exit_code == 2 or evidence.report is not None)
    fates = [
        side.fate for side in (evidence.solution, verifier) if side is not None and side.fate is not None
    ]
    taken = evidence.failure is not None or any(fate.source == "control_plane" for fate in fates)
    if result.has_verdict or (said_so and not taken):
        return result
    message = f"{result.error_type}: {result.error}"
    if result.error_type == "timeout":
        raise TimeoutError(message, result)
    if result.error_type == "verifier_error":
        raise VerifierError(message, result)
    raise SandboxError(message, result)
