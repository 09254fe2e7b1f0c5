"""What adapters whose trainers play episodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgym.contract.evidence import Evidence, Failure
from deepgym.contract.verdict import judge

if TYPE_CHECKING:
    from deepgym.client.session import Session
    from deepgym.environments import MultiTurnEnvironment
    from deepgym.models import RunResult
    from deepgym.session import AsyncSession

__all__ = ["grading_seconds", "unjudged"]

#: Seconds that a run's start and end may take beyond its own limit, and the copy of a work directory.
_MARGIN, _COPYING = 2.0, 30.0


def unjudged(
    failure: Failure, env: MultiTurnEnvironment | None = None, session: Session | AsyncSession | None = None
) -> RunResult:
    """The result that a failure of ours leaves."""
    named: dict[str, Any] = {}
    if env is not None:
        named = {"env_name": env.name, "env_digest": env.digest}
    if session is not None:
        named.update(sandbox_id=session.id, seed=session.seed)
    return judge(Evidence(failure=failure, **named))


def grading_seconds(env: MultiTurnEnvironment) -> float:
    """That grading may take by the environment's limits, once the session is open."""
    return 2 * (env.limits.verify + _MARGIN) + _COPYING
