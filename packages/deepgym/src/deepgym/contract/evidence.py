"""The facts of one run, and how far it got.

An ``Evidence`` holds what channels and counters showed; it has no opinion about whose fault anything
was. ``deepgym.contract.verdict.judge`` reads it and decides. Everything in it is bounded, frozen and
JSON-serialisable, so that a run can be judged again later, elsewhere, with the same outcome.
"""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

__all__ = ["CaseFact", "Clock", "Evidence", "Failure", "Fate", "Phase", "Side"]


class Phase(str, Enum):
    """How far one side of a run got; later members come later in a run's life."""

    QUEUED = "queued"
    OPENED = "opened"
    PLACED = "placed"
    IN_PLAY = "in_play"
    REPORTED = "reported"
    CLOSED = "closed"

    @property
    def rank(self) -> int:
        """Position in a run's life, 0 for ``QUEUED``."""
        return _ORDER[self]


_ORDER = {phase: rank for rank, phase in enumerate(Phase)}

#: Which limit the supervisor's own clock or counter saw exceeded.
Clock = Literal["setup", "wall", "cpu", "output"]


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Fate(_Fact):
    """What became of a sandbox that didn't end by itself, and who says so."""

    kind: Literal["died", "evicted", "expired", "unreachable"]
    source: Literal["counter", "channel", "control_plane"]
    message: str = ""


class Failure(_Fact):
    """A failure of ours, certain by where it was caught.

    ``provider`` and ``network``: the provider or the way to it; ``supervisor``: an exception, a
    cancellation or a lack of resources in our own process; ``deadline``: the run was never started;
    ``zygote``: the process that the run was forked from died with it; ``zygote_again``: it died once
    more when the run was graded alone.
    """

    kind: Literal["provider", "network", "supervisor", "cancelled", "deadline", "zygote", "zygote_again"]
    message: str = ""


class Side(_Fact):
    """One side of a run: the solution's process, or the verifier's."""

    phase: Phase = Phase.QUEUED
    exit_code: int | None = None
    """Exit status if the process ended by itself, ``None`` otherwise."""
    signal: int | None = None
    """Signal that ended the process, unless the supervisor sent it."""
    killed: bool = False
    """Whether the supervisor ended it (the reason is ``Evidence.clock``, or the run was over)."""
    fate: Fate | None = None
    oom: bool = False
    """Whether the memory counter of this run's own group moved."""
    setup_error: str | None = None
    """What trusted set-up code reported before the process was placed."""
    cpu_ms: float = 0.0
    peak_kb: int = 0


class CaseFact(_Fact):
    """What was seen of one declared case. ``outcome`` is a comparison made outside the sandbox."""

    outcome: Literal["passed", "wrong", "raised", "timeout", "malformed", "unanswered"]
    message: str = ""
    """Bounded; for the person who reads the result. Never holds the expected value."""
    weight: float = 1.0
    name: str = ""
    execution_time_ms: float | None = None


class Evidence(_Fact):
    """Everything that is known about one run when it is over."""

    run_id: str = ""
    env_name: str = ""
    env_digest: str = ""
    answer_sha256: str = ""
    sandbox_id: str | None = None
    isolation: str | None = None
    enforced: dict[str, str] = {}
    """What the sandbox enforced: files, network, pids, memory and disk, each ``enforced``, ``rlimit``
    or ``none``.
    """
    limit_scale: float = 1.0
    """What the environment's time limits were multiplied by on this host."""
    seed: int | None = None

    failure: Failure | None = None
    solution: Side = Field(default_factory=Side)
    verifier: Side | None = None
    """``None`` for declared cases, which the judge's own process compares."""
    in_play: bool = False
    """Whether the policy's output had come into play."""
    in_play_by: Literal["mark", "watch", "watch_lost", "work"] | None = None
    """Which sign said so: the solution's mark, the watch on the answer's copy (or its loss), or a session's
    verifier that looked into the agent's work directory.
    """
    clock: Clock | None = None

    cases: tuple[CaseFact, ...] | None = None
    """Declared cases only: one fact a case, in the environment's order."""
    solution_died: bool = False
    """The solution's process ended while a reply of its was still owed."""
    report: bytes | None = None
    """Verifier programs only: the raw bytes of the report, bounded. Base64 in JSON."""
    report_overflow: bool = False

    @field_serializer("report", when_used="json")
    def _report_text(self, report: bytes | None) -> str | None:
        return None if report is None else base64.b64encode(report).decode("ascii")

    @field_validator("report", mode="before")
    @classmethod
    def _report_bytes(cls, report: object) -> object:
        return base64.b64decode(report, validate=True) if isinstance(report, str) else report

    output: str = ""
    stderr: str = ""
    verifier_stderr: str = ""
    truncated: bool = False
    execution_time_ms: float = 0.0
    """From the mark to the end, by the supervisor's clock; 0.0 if nothing came into play."""
    timings: dict[str, float] = {}
    """Milliseconds by phase: queue, open, run, total; and kill, if the wall limit ended it."""
    attempts: int = 1
    details: dict[str, Any] = {}
