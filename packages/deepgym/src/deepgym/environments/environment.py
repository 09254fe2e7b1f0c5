"""``Environment``: a task, how an answer to it is checked, and the limits it runs under. Only data."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from deepgym.environments.completion import complete
from deepgym.environments.plain import Text
from deepgym.environments.task import Task
from deepgym.environments.verify import Case, Cases, Frozen, Program

__all__ = ["Case", "Cases", "Environment", "EnvironmentLimits", "Program"]

_MIB = 1 << 20


class EnvironmentLimits(Frozen):
    """Bounds of one run, for the answer's process tree. Seconds, bytes and counts; all above zero."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    wall: float = Field(default=10.0, gt=0, le=86_400)
    """Seconds from the moment the answer comes into play."""
    cpu: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds of processor time; ``None`` means as many as ``wall``."""
    memory: int = Field(default=512 * _MIB, ge=16 * _MIB, le=1 << 40)
    processes: int = Field(default=32, ge=1, le=10_000)
    open_files: int = Field(default=128, ge=16, le=1 << 20)
    file_size: int = Field(default=64 * _MIB, ge=1, le=1 << 40)
    disk: int = Field(default=64 * _MIB, ge=4096, le=1 << 40)
    files: int = Field(default=4096, ge=16, le=10_000_000)
    output: int = Field(default=64 << 10, ge=1, le=64 * _MIB)
    """Bytes of stdout and of stderr that are kept."""
    case_timeout: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds for one declared case; a case over it fails alone. ``None``: only ``wall`` bounds it."""

    @model_validator(mode="after")
    def _case_within_wall(self) -> EnvironmentLimits:
        if self.case_timeout is not None and self.case_timeout > self.wall:
            raise ValueError(
                f"case_timeout ({self.case_timeout} s) is above wall ({self.wall} s); raise wall"
            )
        return self

    @property
    def cpu_seconds(self) -> float:
        """``cpu``, or ``wall`` where it is ``None``."""
        return self.wall if self.cpu is None else self.cpu


class Environment(Task):
    """One task. Frozen, comparable, hashable, picklable; an unknown field is an error.

    Raises:
        pydantic.ValidationError: (a ``ValueError``) naming the field, the value and what would do.
    """

    verify: Cases | Program = Field(discriminator="kind")
    limits: EnvironmentLimits = Field(default_factory=EnvironmentLimits)
    reference: Text | None = None
    """An answer that scores 1.0."""
    prefix: Text = ""
    """Code that the task shows and a completion may continue; see ``complete``."""
    entry_point: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """Function that ``prefix`` begins and a completion may define whole."""
    language: str = Field(default="python", pattern=r"^[a-z0-9][a-z0-9+#._-]{0,30}$")
    interpreter: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = Field(
        default=(), max_length=64
    )
    """Command that runs the answer's file; empty for the sandbox's own Python."""
    loopback: bool = Field(default=False, strict=True)
    """Whether the answer may open sockets on its own loopback interface. There is no other network."""

    @model_validator(mode="after")
    def _consistent(self) -> Environment:
        if self.language != "python" and not self.interpreter:
            raise ValueError(
                f"language {self.language!r} needs an interpreter, for example interpreter = ['bash']"
            )
        calls = isinstance(self.verify, Cases) and self.verify.function is not None
        if calls and self.language != "python":
            raise ValueError(
                f"verify.function calls Python, but language is {self.language!r}; drop function, use stdin "
                "and stdout"
            )
        size = sum(len(text.encode()) for text in self.files.values())
        if size > self.limits.disk or len(self.files) > self.limits.files:
            raise ValueError(
                f"files hold {size} bytes in {len(self.files)} files; raise limits.disk ({self.limits.disk}) "
                f"or limits.files ({self.limits.files})"
            )
        return self

    def complete(self, answer: str) -> str:
        """The code to run for ``answer``: a whole definition, or a body that continues ``prefix``.

        Without a prefix the answer is returned as it is. Never raises and never parses ``answer``, whose
        syntax errors are left for its own process to meet. See ``docs/environments.md`` for the rule.
        """
        if not self.prefix:
            return answer
        return complete(answer, self.prefix, self.entry_point if self.language == "python" else None)
