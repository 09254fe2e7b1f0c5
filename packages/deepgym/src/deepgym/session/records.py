"""What an episode leaves: observations, turns, and the trajectory that they are."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from deepgym.bounded import Details
from deepgym.environments.tools import ToolCall
from deepgym.models import RunResult

__all__ = ["Ended", "Observation", "Reply", "Trajectory", "Turn"]

#: Why an episode is over: the agent submitted (or called no tool), a limit of the environment, its sandbox
#: ended, or the agent itself failed.
Ended = Literal["submitted", "steps", "time", "sandbox", "agent"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Observation(_Record):
    """What a step shows the agent. Bounded, and valid UTF-8 whatever the agent's commands wrote."""

    text: str
    done: bool = False
    """Whether the episode is over, so that nothing but ``score`` can follow."""
    ended: Ended | None = None
    """Why it is over."""
    cut: bool = False
    """Whether ``text`` lost anything."""
    exit_code: int | None = None
    """Status of a command that ended; minus the signal that ended it."""
    timed_out: bool = False
    """Whether the step met its limit."""
    invalid: bool = False
    """Whether the action was no valid call, so that nothing was run."""
    seconds: float = 0.0
    """That the agent's action took."""
    result: RunResult | None = None
    """Of the step verifier, where the environment has one."""


class Reply(_Record):
    """What an agent does next: calls in order, and the chat message that they came in. No calls: submit."""

    calls: tuple[ToolCall | dict[str, Any] | str, ...] = ()
    """Each as ``step`` takes it."""
    message: Details | None = None
    metadata: Details = {}
    """For the record: the model's name, ``usage`` (token counts), ..."""


class Turn(_Record):
    """One reply of the agent and what it saw of each of its calls.

    Calls that the end of the episode kept from being run aren't there. If our side failed, the last call
    has no observation.
    """

    calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    message: Details | None = None
    metadata: Details = {}


class Trajectory(_Record):
    """One episode, as far as it got. Survives a round trip through its own JSON."""

    env_name: str
    env_digest: str
    task: str
    tools: tuple[dict[str, Any], ...] = ()
    seed: int = 0
    sandbox_id: str | None = None
    turns: tuple[Turn, ...] = ()
    ended: Ended | None = None
    error: str | None = None
    """What the agent failed with, or what ended the sandbox."""
    result: RunResult | None = None
    """The episode's result; ``None`` while it goes on."""
    agent_seconds: float = 0.0
    """That the agent's own actions took, of ``session_seconds``."""
    session_seconds: float = 0.0
    metadata: Details = {}
    """For whoever records trajectories: the model's name, ``usage`` (token counts of all turns), ..."""

    @property
    def last(self) -> Observation | None:
        """The newest observation."""
        return self.turns[-1].observations[-1] if self.turns and self.turns[-1].observations else None
