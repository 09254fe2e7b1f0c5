"""Whose failure it was that ended an episode: the contract's rule for agents that act."""

from __future__ import annotations

from deepgym.exceptions import (
    NetworkError,
    SandboxExpiredError,
    SupervisorError,
    TimeoutError,
    VerifierError,
    is_infrastructure_failure,
)
from deepgym.models import ErrorType, RunResult

__all__ = ["failure_result"]

_FOREVER = 1e15
_OURS: tuple[tuple[type, ErrorType], ...] = (
    (NetworkError, "network_error"),
    (SupervisorError, "sandbox_error"),
)


def failure_result(
    exc: BaseException,
    sandbox_id: str | None,
    *,
    agent_seconds: float | None = None,
    session_seconds: float | None = None,
) -> RunResult:
    """The result of an episode that ``exc`` ended after the agent had acted. Never raises.

    Without a verdict only where the failure is certainly ours: what ``is_infrastructure_failure`` says; a
    verifier that couldn't run or timed out before it read the agent's output (``VerifierError``,
    ``deepgym.exceptions.TimeoutError``); an error with a result without a verdict, which DeepGym's own judge
    gave; and the provider's end of the sandbox's life (``SandboxExpiredError``), unless the agent's own
    actions took at least half of the session. Everything else is the agent's 0, ``policy_sandbox_failure``.

    Args:
        exc: What was raised.
        sandbox_id: For the reader of the result.
        agent_seconds: That the agent's own actions took; ``None`` if nobody measured it.
        session_seconds: From the session's start to its end. Values that are no numbers of seconds can't be
            read, and what can't be read is the agent's 0.
    """
    message = _message(exc)
    try:
        judged = getattr(exc, "result", None)
    except Exception:  # noqa: BLE001 - a foreign exception's property
        judged = None
    if isinstance(judged, RunResult) and not judged.has_verdict:
        return judged
    error_type: ErrorType = "policy_sandbox_failure"
    if is_infrastructure_failure(exc):
        error_type = next((word for kind, word in _OURS if isinstance(exc, kind)), "provider_error")
    elif isinstance(exc, VerifierError):
        error_type = "verifier_error"
    elif isinstance(exc, TimeoutError):
        error_type = "timeout"
    elif isinstance(exc, SandboxExpiredError):
        if not _agents_time(agent_seconds, session_seconds):
            error_type = "sandbox_error"
        else:
            message += " (the agent's own actions took half of the session, or it can't be told)"
    where = sandbox_id if isinstance(sandbox_id, str) else None
    return RunResult(score=0.0, sandbox_id=where, error_type=error_type, error=message)


def _agents_time(agent: object, session: object) -> bool:
    """Whether the agent's actions took at least half of the session, or what was measured can't be read."""
    if agent is None or session is None:
        return False
    measured = []
    for seconds in (agent, session):
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            return True
        # Neither NaN nor a number that no float can hold passes this.
        if not 0 <= seconds < _FOREVER:
            return True
        measured.append(float(seconds))
    return measured[0] > 0 and 2 * measured[0] >= measured[1]


def _message(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a foreign exception's text is its own code
        text = "(its text can't be read)"
    return f"{type(exc).__name__}: {text}"[:2000]
