"""Faults put into any provider, so that an outage can be had when a test needs one.

    FaultyProvider(provider, Fault("provider", Phase.IN_PLAY), answers={"..."})

A fault strikes at a phase: how far the run had got. ``QUEUED``: ``open`` fails; ``OPENED``: ``start``
fails; ``PLACED``: the process is started and never marks; ``IN_PLAY``: it has marked, and its replies are
lost; ``REPORTED``: all its replies are there; ``CLOSED``: ``close`` fails. From ``PLACED`` on, what
became of a sandbox (evicted, expired, died) is the fate of its process; one that died ``IN_PLAY`` is an
exception, as when a pipe to it breaks.

A ``SessionFault`` strikes at a verb of a session's sandbox. To fail both an episode and its verification, put
one ``FaultyProvider`` around another.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from deepgym.contract.evidence import Clock, Fate, Phase
from deepgym.exceptions import (
    NetworkError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    SandboxExpiredError,
)
from deepgym.providers.base import (
    Capabilities,
    Exit,
    Hosting,
    Job,
    Place,
    Process,
    Provider,
    Sandbox,
    Spec,
    Workspace,
    ZygoteDiedError,
)
from deepgym.sandboxed.wire import LOOKED
from deepgym.testing.fakes import job_text
from deepgym.testing.session_faults import FaultyWorkspace, SessionFault

__all__ = ["FAULTS", "Fault", "FaultKind", "FaultyProvider"]

FaultKind = Literal[
    "provider",
    "rate_limited",
    "refused",
    "provider_timeout",
    "network",
    "evicted",
    "expired",
    "died",
    "timeout",
    "supervisor",
    "zygote",
]

_RAISED: dict[str, Callable[[], Exception]] = {
    "provider": lambda: ProviderError("HTTP 503 from the provider", "fake", 503),
    "rate_limited": lambda: ProviderError("HTTP 429 from the provider", "fake", 429),
    "refused": lambda: ProviderError("HTTP 401 from the provider", "fake", 401),
    "provider_timeout": lambda: ProviderError("no reply from the provider", "fake", timed_out=True),
    "network": lambda: NetworkError("the provider can't be reached"),
    "evicted": lambda: ProviderError("the sandbox was evicted", "fake", evicted=True),
    "expired": lambda: SandboxExpiredError("the sandbox's lifetime is over"),
    "died": lambda: SandboxDiedError("the sandbox is gone"),
    "supervisor": lambda: OSError(errno.EMFILE, "Too many open files"),
    "zygote": lambda: ZygoteDiedError("the zygote died"),
}
_FATES: dict[str, Fate] = {
    "evicted": Fate(kind="evicted", source="control_plane", message="evicted"),
    "expired": Fate(kind="expired", source="control_plane", message="lifetime over"),
    "died": Fate(kind="died", source="channel", message="gone"),
}
_OURS = {
    "provider": "provider_error",
    "rate_limited": "provider_error",
    "refused": "provider_error",
    "provider_timeout": "provider_error",
    "network": "network_error",
    "evicted": "provider_error",
    "expired": "sandbox_error",
    "supervisor": "sandbox_error",
}


@dataclass(frozen=True)
class Fault:
    """What fails, and how far the run had got when it did."""

    kind: FaultKind
    phase: Phase = Phase.QUEUED

    def __post_init__(self) -> None:
        if self.kind in ("timeout", "zygote") and self.phase.rank not in _LATE:
            raise ValueError(f"a {self.kind} can't strike at {self.phase.value}: no process runs then")

    def __str__(self) -> str:
        return f"{self.kind}-{self.phase.value}"

    @property
    def error_type(self) -> str | None:
        """What the contract makes of a run that only ever meets this fault; ``None``: nothing happened."""
        if self.phase is Phase.CLOSED:
            return None
        in_play = self.phase.rank >= Phase.IN_PLAY.rank
        if self.kind in _OURS:
            return _OURS[self.kind]
        if self.kind == "timeout":
            return "solution_timeout" if in_play else "timeout"
        return "policy_sandbox_failure" if in_play else "sandbox_error"


_LATE = (Phase.PLACED.rank, Phase.IN_PLAY.rank, Phase.REPORTED.rank)

#: Every kind at every phase at which it can strike.
FAULTS: tuple[Fault, ...] = tuple(
    Fault(kind, phase)
    for kind in get_args(FaultKind)
    for phase in Phase
    if phase is not Phase.CLOSED and (kind not in ("timeout", "zygote") or phase.rank in _LATE)
)


class FaultyProvider:
    """``inner`` with a ``fault``.

    It strikes the runs of ``answers`` (all, if ``None``), a share ``rate`` of them chosen by ``seed``
    and the answer, so that the order of runs doesn't matter, and each answer at most ``times`` times.
    An agent's work is known by its hash, an act by its text (a command, a source or a path). At ``QUEUED``,
    and where a session's sandbox is opened or closed, no answer is known and ``answers`` can't be given.
    ``struck`` counts by answer.
    """

    def __init__(
        self,
        inner: Provider,
        fault: Fault | SessionFault,
        *,
        answers: Collection[str] | None = None,
        rate: float = 1.0,
        times: int | None = None,
        seed: int = 0,
    ) -> None:
        if answers is not None and _place(fault) in (Phase.QUEUED, "host", "close"):
            raise ValueError("before a sandbox is open no answer is known; leave answers out")
        self.inner = inner
        self.fault = fault
        self.answers = None if answers is None else frozenset(answer.strip() for answer in answers)
        self.rate = rate
        self.times = times
        self.seed = seed
        self.name = inner.name
        self.struck: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()

    @property
    def capabilities(self) -> Capabilities:
        """The inner provider's."""
        return self.inner.capabilities

    async def open(self, spec: Spec) -> Sandbox:
        """The inner provider's sandbox, or the fault."""
        fault = self.fault
        if isinstance(fault, SessionFault):
            return await self.inner.open(spec)
        if fault.phase is Phase.QUEUED and self.strikes(""):
            raise _RAISED[fault.kind]()
        return _FaultySandbox(self, fault, await self.inner.open(spec))

    async def host(self, place: Place) -> Workspace:
        """The inner provider's sandbox for a session, or the fault. ``SandboxError`` if that has none."""
        if not isinstance(self.inner, Hosting):
            raise SandboxError(f"the provider {self.inner.name!r} has no sandboxes for sessions")
        fault = self.fault
        if not isinstance(fault, SessionFault):
            return await self.inner.host(place)
        if fault.verb == "host" and self.strikes(""):
            raise fault.error()
        return FaultyWorkspace(await self.inner.host(place), fault, self.strikes)

    async def close(self) -> None:
        """Close the inner provider."""
        await self.inner.close()

    def strikes(self, answer: str) -> bool:
        """Whether the fault strikes this run of ``answer``; counts it if so."""
        turn = self._seen[answer]
        self._seen[answer] += 1
        if self.answers is not None and answer not in self.answers:
            return False
        if self.times is not None and self.struck[answer] >= self.times:
            return False
        if random.Random(f"{self.seed}:{turn}:{answer}").random() >= self.rate:
            return False
        self.struck[answer] += 1
        return True


def _place(fault: Fault | SessionFault) -> Phase | str:
    return fault.verb if isinstance(fault, SessionFault) else fault.phase


class _FaultySandbox:
    def __init__(self, provider: FaultyProvider, fault: Fault, inner: Sandbox) -> None:
        self.id, self.capabilities = inner.id, inner.capabilities
        self._provider, self._fault, self._inner = provider, fault, inner
        self._strikes: bool | None = None

    async def start(self, job: Job) -> Process:
        fault = self._fault
        drawing = job.role == "verifier" and job.answer is None and job.tree is None
        if drawing or fault.phase is Phase.QUEUED:
            return await self._inner.start(job)
        if self._strikes is None:
            self._strikes = self._provider.strikes(job_text(job))
        if not self._strikes or fault.phase is Phase.CLOSED:
            return await self._inner.start(job)
        if fault.phase is Phase.OPENED:
            raise _RAISED[fault.kind]()
        return cast(Process, _FaultyProcess(await self._inner.start(job), fault))

    def opened_by_verifier(self) -> Literal["no", "watch", "watch_lost"]:
        if self._strikes and self._fault.phase is Phase.PLACED:
            return "no"
        return self._inner.opened_by_verifier()

    async def close(self) -> None:
        await self._inner.close()
        if self._strikes and self._fault.phase is Phase.CLOSED:
            raise _RAISED[self._fault.kind]()


class _FaultyProcess:
    """A process whose end is the fault. Everything else is the inner process's."""

    def __init__(self, inner: Process, fault: Fault) -> None:
        self._inner, self._fault = inner, fault
        self._lost = fault.phase is not Phase.REPORTED

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def marked_at(self) -> float | None:
        return None if self._fault.phase is Phase.PLACED else self._inner.marked_at

    @property
    def replies(self) -> bytearray:
        if not self._lost:
            return self._inner.replies
        looked = self._fault.phase is Phase.IN_PLAY and self._inner.replies.startswith(LOOKED)
        return bytearray(LOOKED if looked else b"")

    async def line(self, timeout: float) -> bytes | None:
        if self._lost:
            await self._strike(await self._inner.end(timeout))
        return await self._inner.line(timeout)

    async def end(self, wall: float) -> Exit:
        return await self._strike(await self._inner.end(wall))

    async def settle(self) -> Exit:
        return await self._strike(await self._inner.settle())

    async def _strike(self, found: Exit) -> Exit:
        kind = self._fault.kind
        if kind == "timeout":
            clock: Clock = "setup" if self._fault.phase is Phase.PLACED else "wall"
            return replace(found, code=None, signal=None, killed=True, clock=clock)
        if kind in _FATES and not (kind == "died" and self._fault.phase is Phase.IN_PLAY):
            return replace(found, code=None, signal=None, killed=True, fate=_FATES[kind])
        raise _RAISED[kind]()
