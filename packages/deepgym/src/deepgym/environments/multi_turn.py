"""``MultiTurnEnvironment``: a task that an agent works on in a sandbox, step by step. Only data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from deepgym.environments.environment import EnvironmentLimits
from deepgym.environments.plain import Text
from deepgym.environments.task import Task
from deepgym.environments.tools import TOOL_NAMES, ToolCall, ToolName, read_call
from deepgym.environments.verify import Frozen, Program

__all__ = ["EpisodeLimits", "MultiTurnEnvironment"]

_MIB = 1 << 20
#: Room of the verifier beside the work directory, in bytes and files.
_OWN_ROOM, _OWN_FILES = 64 * _MIB, 1024


class EpisodeLimits(Frozen):
    """Bounds of one episode. Seconds, bytes and counts; all above zero."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    step: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds of one step; what still runs then is interrupted."""
    actions: float = Field(default=600.0, gt=0, le=86_400)
    """Seconds of all steps together. The time in which the agent thinks isn't counted."""
    steps: int = Field(default=50, ge=1, le=100_000)
    setup: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds of the set-up script."""
    verify: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds of the verifier, from its first look at the agent's work."""
    memory: int = Field(default=1024 * _MIB, ge=16 * _MIB, le=1 << 40)
    processes: int = Field(default=64, ge=4, le=10_000)
    open_files: int = Field(default=256, ge=16, le=1 << 20)
    file_size: int = Field(default=64 * _MIB, ge=1, le=1 << 40)
    disk: int = Field(default=64 * _MIB, ge=1 << 16, le=1 << 30)
    """Of the work directory, the home directory and ``/tmp`` together."""
    files: int = Field(default=8192, ge=64, le=10_000_000)
    output: int = Field(default=16 << 10, ge=256, le=16 * _MIB)
    """Bytes of an observation; what is longer loses its middle."""


class MultiTurnEnvironment(Task):
    """A task that an agent works on in a sandbox of its own, judged by what its work directory holds at the
    end. Frozen, comparable, hashable, picklable; an unknown field is an error.

    Raises:
        pydantic.ValidationError: (a ``ValueError``) naming the field, the value and what would do.
    """

    kind: Literal["multi_turn"] = "multi_turn"
    verify: Program
    """Judges a frozen copy of the work directory, in a sandbox of its own; the agent's processes are gone."""
    step_verify: Program | None = None
    """Judges a copy after each step, for a reward along the way; the agent's processes go on."""
    setup: Text = ""
    """A bash script that prepares the work directory. The seed is in its variable ``DEEPGYM_SEED``, which it
    doesn't export: what it leaves running tells no agent.
    """
    requires: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,100}$")], ...] = Field(
        default=(), max_length=50
    )
    """Programs that the sandbox must have, besides Python and bash."""
    tools: tuple[ToolName, ...] = Field(default=TOOL_NAMES, min_length=1)
    limits: EpisodeLimits = Field(default_factory=EpisodeLimits)
    reference: tuple[ToolCall, ...] | None = None
    """Actions that score 1.0."""

    @model_validator(mode="after")
    def _consistent(self) -> MultiTurnEnvironment:
        size = sum(len(text.encode()) for text in self.files.values())
        if size > self.limits.disk or len(self.files) > self.limits.files:
            raise ValueError(
                f"files hold {size} bytes in {len(self.files)} files; raise limits.disk ({self.limits.disk}) "
                f"or limits.files ({self.limits.files})"
            )
        for index, call in enumerate(self.reference or ()):
            _, wrong = read_call(call, self.tools)
            if wrong is not None:
                raise ValueError(f"reference[{index}]: {wrong}")
        if len(set(self.tools)) != len(self.tools):
            raise ValueError(f"tools names one twice: {', '.join(self.tools)}")
        return self

    @property
    def verify_limits(self) -> EnvironmentLimits:
        """Of the verifier, and of the sandbox in which the agent's work runs again for it."""
        limits = self.limits
        return EnvironmentLimits(
            wall=limits.verify,
            memory=limits.memory + 4 * limits.disk,
            processes=limits.processes,
            open_files=limits.open_files,
            file_size=limits.file_size,
            disk=2 * limits.disk + _OWN_ROOM,
            files=2 * limits.files + _OWN_FILES,
        )
