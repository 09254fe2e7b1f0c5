"""One row of the table of faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from .scene import FaultContext

__all__ = ["PHASES", "QUOTA", "Cell"]

PHASES = ("queued", "opened", "placed", "in play", "reported", "closed")
#: Strikes that each part must have had in each phase.
QUOTA = 50


@dataclass(frozen=True)
class Cell:
    """One way of breaking one part in one phase."""

    part: str
    phase: str
    at: str
    fault: FaultContext
    always: str
    once: str
    tasks: tuple[str, ...] = ("cases",)
    role: str | None = None
    fresh: bool = False
    waiting: float = 0.0
    """Seconds that a chosen answer takes, so that the strike finds it in play."""
    runs: tuple[int, int] = (12, 26)
    """Chosen runs with ``always`` and with ``once``."""
    far: bool = False
    """Strikes neighbours too: rates stay low, and a run that others took all attempts from has no verdict."""
    errors: frozenset[str] = field(default_factory=frozenset)
    """Error types of a 0; empty: any model fault."""

    @property
    def name(self) -> str:
        return f"{self.part} x {self.phase}"

    @property
    def stormy(self) -> bool:
        """Whether it may strike beside any other: it touches its own run alone, in a task that is quick."""
        own = not self.far and (self.part, self.phase) != ("EMFILE", "queued")
        return own and set(self.tasks) <= {"cases", "held", "program", "reading"}
