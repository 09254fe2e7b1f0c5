"""What a sandbox provider is: a few async verbs that know nothing of scoring.

    provider.open(spec) -> Sandbox        a place for one run (or one episode)
    sandbox.start(job)  -> Process        the solution, or the verifier beside it
    process.line(), end(), kill()         replies, the end, and what was seen on the way
    sandbox.close()

Providers translate their vendor's exceptions at this edge into ``deepgym.exceptions`` with the fact
attached. What a *policy* did to its own sandbox isn't an exception at all: it is an ``Exit`` or a
``Fate`` of its process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

from deepgym.contract.evidence import Clock, Fate
from deepgym.exceptions import SandboxDiedError

__all__ = [
    "Act",
    "Capabilities",
    "Exit",
    "Hosting",
    "Job",
    "Limits",
    "Place",
    "Process",
    "Provider",
    "Ran",
    "Sandbox",
    "Spec",
    "Workspace",
    "ZygoteDiedError",
]

Enforcement = Literal["enforced", "rlimit", "none"]


class ZygoteDiedError(SandboxDiedError):
    """The process that runs are forked from died with this run in it. The schedule grades such a run
    once more, alone.
    """


@dataclass(frozen=True)
class Capabilities:
    """What a sandbox enforces; stands in every result and in ``deepgym doctor``.

    ``enforced``: for a run as a whole. ``rlimit``: for each process, or file, alone. ``none``: not at all.
    """

    isolation: str
    """The tier's name, as it stands in every result (``namespaces``, ``docker``, ...)."""
    files: Enforcement = "none"
    network: Enforcement = "none"
    pids: Enforcement = "none"
    memory: Enforcement = "none"
    disk: Enforcement = "none"

    @cached_property
    def enforced(self) -> dict[str, str]:
        """All but the tier's name, as it stands in every result."""
        return {name: value for name, value in asdict(self).items() if name != "isolation"}


@dataclass(frozen=True)
class Limits:
    """Bounds of one process tree. Seconds, bytes and counts."""

    wall: float = 10.0
    cpu: float = 10.0
    setup: float = 30.0
    memory: int = 512 << 20
    processes: int = 32
    open_files: int = 128
    file_size: int = 64 << 20
    disk: int = 64 << 20
    files: int = 4096
    output: int = 64 << 10
    reply: int = 1 << 20


@dataclass(frozen=True)
class Spec:
    """What a run needs of a place: its bounds, and whether a verifier will stand beside it."""

    limits: Limits = Limits()
    verifier: bool = False
    alone: bool = False
    """Nothing else of this provider may run meanwhile (a run whose zygote died is graded so)."""


@dataclass(frozen=True)
class Job:
    """One process: which host runs it, the text it is about, and the first bytes to ask of it.

    ``role`` ``solution``: ``text`` is the policy's, and the process marks before it reads it.
    ``role`` ``verifier``: ``text`` is a trusted program; ``answer`` is put where it can open it.
    """

    role: Literal["solution", "verifier"]
    text: bytes
    head: dict[str, object] = field(default_factory=dict)
    requests: bytes = b""
    seed: int = 0
    """Of ``random`` in the process, and of what a verifier draws; in [0, 2**63)."""
    answer: bytes | None = None
    linked: bool = False
    """A solution that a verifier asks over a direct channel, not the supervisor."""
    argv: tuple[str, ...] = ()
    """A fresh interpreter or program instead of a forked child (``exec`` mode)."""
    loopback: bool = False
    tree: bytes | None = None
    """An agent's frozen work directory (see ``deepgym.sandboxed.tree``), in place of an answer."""
    max_replies: int = 16 << 20
    """Bytes of all replies together; a process that sends more is ended."""


@dataclass(frozen=True)
class Exit:
    """How a process ended. Exactly one of ``code``, ``signal`` and ``killed`` tells."""

    code: int | None = None
    signal: int | None = None
    killed: bool = False
    clock: Clock | None = None
    killed_after: float | None = None
    """Seconds from the mark at which the supervisor ended it for its wall limit; tear-down doesn't count."""
    fate: Fate | None = None
    oom: bool = False
    cpu_ms: float = 0.0
    peak_kb: int = 0
    setup_error: str | None = None


class Process(Protocol):
    """A started process. All that it collects is bounded by the sandbox's limits."""

    replies: bytearray
    stdout: bytearray
    stderr: bytearray
    truncated: bool
    overflow: bool

    @property
    def marked_at(self) -> float | None:
        """``time.monotonic()`` of the mark; ``None`` until the policy's text came into play."""
        ...

    @property
    def running(self) -> bool:
        """Whether no end was seen yet."""
        ...

    async def send(self, data: bytes) -> None:
        """Write to the process's channel. A channel that the process closed swallows the bytes."""
        ...

    async def finish_requests(self) -> None:
        """Close the request side of the channel: no more will be asked."""
        ...

    async def line(self, timeout: float) -> bytes | None:
        """Next reply line without its newline; ``None`` on the process's end or after ``timeout`` seconds,
        which count from now or from the mark, whichever is later.
        """
        ...

    async def end(self, wall: float) -> Exit:
        """Wait for the end, at most ``wall`` seconds from the sandbox's mark; then kill.

        Raises:
            ZygoteDiedError: what the process was forked from died. Never for what the process did.
        """
        ...

    async def settle(self) -> Exit:
        """Nothing more is wanted of it: wait a moment for a tidy end, then kill."""
        ...

    async def kill(self) -> None:
        """End the process and all that it started."""
        ...


class Sandbox(Protocol):
    """One place, used for one run and then closed."""

    id: str
    capabilities: Capabilities

    async def start(self, job: Job) -> Process:
        """Place and start ``job``.

        Raises:
            SandboxError: the sandbox couldn't be set up (ours, before anything came into play).
        """
        ...

    def opened_by_verifier(self) -> Literal["no", "watch", "watch_lost"]:
        """Whether the verifier has opened the answer's copy. A lost watch counts as opened."""
        ...

    async def close(self) -> None:
        """Give the place back. Can't change a verdict; problems are kept for the next ``open``."""
        ...


class Provider(Protocol):
    """Where runs happen. One per client."""

    name: str

    @property
    def capabilities(self) -> Capabilities: ...

    async def open(self, spec: Spec) -> Sandbox:
        """A free place, waiting for one if need be.

        Raises:
            SandboxError: no place can be had; the message names what is missing and the remedy.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """What a session needs: bounds of all that the agent runs together, and programs that must be there."""

    limits: Limits = Limits()
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Act:
    """One thing to do in a session's sandbox, as the agent's user. Paths start in the work directory.

    ``bash``: ``data`` in the shell that lives on. ``script``: for a bash of its own. ``python``: for an
    interpreter of its own. ``write``, ``read``: the file ``path``.
    """

    do: Literal["bash", "script", "python", "write", "read"]
    data: bytes = b""
    path: str = ""
    seconds: float = 30.0
    output: int = 16 << 10
    """Bytes of output that are kept."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables of ``script``, which aren't exported."""


@dataclass(frozen=True)
class Ran:
    """What came of an ``Act``. Whatever an agent did, it is told here, not raised."""

    output: bytes = b""
    code: int | None = None
    """Exit status, minus the signal that ended it; ``None`` if it was stopped or never began."""
    timed_out: bool = False
    cut: bool = False
    note: str = ""
    """For the agent: what happened to its shell, or to all that it had running."""
    error: str = ""
    """Why it couldn't begin."""
    seconds: float = 0.0
    """That it took, without any waiting for a turn."""


class Workspace(Protocol):
    """One session's sandbox, alive until it is closed."""

    id: str
    capabilities: Capabilities

    async def act(self, act: Act) -> Ran:
        """Do one thing; one at a time.

        Raises:
            SandboxDiedError: the sandbox ended, or no longer answers.
            SandboxExpiredError: the provider retired it at the end of its lifetime.
            ProviderError, NetworkError: the provider failed, or the way to it.
        """
        ...

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        """The work directory as a tree, at most ``room`` bytes in ``files`` entries. ``last``: all that the
        agent has running is ended first, for good. Raises as ``act`` does.
        """
        ...

    async def close(self) -> None:
        """End it and all that runs in it."""
        ...


@runtime_checkable
class Hosting(Protocol):
    """A provider that has sandboxes for sessions."""

    async def host(self, place: Place) -> Workspace:
        """A sandbox for a session, waiting while as many as may be are open.

        Raises:
            SandboxError: none can be had; the message names what is missing and the remedy.
        """
        ...
