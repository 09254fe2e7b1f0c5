"""What an answer does in a fake sandbox, and what a verifier makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepgym.contract.evidence import Clock, Fate
from deepgym.providers.base import Exit

__all__ = ["UNKNOWN", "Behaviour"]

_ENDED = Exit(code=0)


@dataclass(frozen=True)
class Behaviour:
    """What an answer does, and what a verifier program makes of it.

    Declared cases use ``call`` (a function of the case's arguments, or for a program of its stdin) for
    the first ``replies`` requests, all of them if ``None``; ``exit`` is how the process ends. A verifier
    program reports ``report`` and ends as ``verifier_exit``; ``asks`` says whether it asks the solution
    anything, ``opens`` whether it opens the answer's file, or looks into an agent's work.
    """

    call: Callable[..., Any] | None = None
    replies: int | None = None
    exit: Exit = _ENDED
    marks: bool = True
    raw: bytes | None = None
    """Bytes to send in place of well-formed replies."""
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    """Time that the run really takes."""
    report: Mapping[str, Any] | bytes | None = None
    verifier_exit: Exit = _ENDED
    verifier_stderr: bytes = b""
    asks: bool = True
    opens: bool = False
    fault: str | None = None
    """What the verifier's host saw of a solution that died while it owed a reply."""

    @classmethod
    def calls(cls, call: Callable[..., Any], **others: Any) -> Behaviour:
        """Replies with what ``call`` returns, or with the exception it raises; a verifier passes it."""
        return cls(**{"call": call, "report": {"score": 1.0, "passed": True}, **others})

    @classmethod
    def reports(cls, score: object, passed: object = None, **others: Any) -> Behaviour:
        """A verifier program reports ``score``; it passes if ``passed``, by default from a full score."""
        passed = score == 1 if passed is None else passed
        ended = Exit(code=0 if passed is True else 1)
        return cls(**{"report": {"score": score, "passed": passed}, "verifier_exit": ended, **others})

    @classmethod
    def dies(cls, replies: int = 0, signal: int = 11, **others: Any) -> Behaviour:
        """The solution's process is gone after ``replies`` replies."""
        return cls(replies=replies, exit=Exit(signal=signal), fault="the solution's process ended", **others)

    @classmethod
    def loops(cls, clock: Clock = "wall", **others: Any) -> Behaviour:
        """The solution never replies and is ended by ``clock``; so is a verifier that waits for it."""
        ended = Exit(killed=True, clock=clock)
        return cls(**{"replies": 0, "exit": ended, "verifier_exit": ended, **others})

    @classmethod
    def breaks_sandbox(cls, **others: Any) -> Behaviour:
        """The sandbox dies under the solution."""
        ended = Exit(killed=True, fate=Fate(kind="died", source="channel"))
        return cls(replies=0, exit=ended, **others)

    @classmethod
    def crashes_verifier(cls, code: int = 70, report: object = None, **others: Any) -> Behaviour:
        """The verifier program crashes on the solution, having sent ``report`` before."""
        return cls(**{"report": report, "verifier_exit": Exit(code=code), **others})


#: An answer that defines nothing.
UNKNOWN = Behaviour(
    report={"score": 0.0, "passed": False}, verifier_exit=Exit(code=1), stderr=b"an unscripted answer\n"
)
