"""Faults of a session's sandbox: what each of its verbs can fail with.

FaultyProvider(provider, SessionFault("network", "act"), answers={"make test"})
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from deepgym.exceptions import (
    NetworkError,
    ProviderError,
    SandboxDiedError,
    SandboxExpiredError,
    SupervisorError,
)
from deepgym.models import ErrorType
from deepgym.providers.base import Act, Ran, Workspace
from deepgym.testing.sessions import VERBS, Verb, act_text

__all__ = ["SESSION_FAULTS", "FaultyWorkspace", "SessionFault", "SessionFaultKind"]

SessionFaultKind = Literal[
    "provider",
    "rate_limited",
    "refused",
    "provider_timeout",
    "network",
    "evicted",
    "expired",
    "died",
    "supervisor",
    "unnamed",
    "bug",
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
    "supervisor": lambda: SupervisorError("OSError: Too many open files"),
    "unnamed": lambda: OSError(errno.EMFILE, "Too many open files"),
    "bug": lambda: RuntimeError("a bug of the provider's"),
}
_PROVIDERS = ("provider", "rate_limited", "refused", "provider_timeout", "evicted")
#: After these, the sandbox is gone.
_ENDS = ("evicted", "expired", "died")


@dataclass(frozen=True)
class SessionFault:
    """What fails, and at which verb of a session's sandbox.

    ``unnamed`` and ``bug`` are exceptions that a provider should have given one of DeepGym's classes: once
    the agent has acted, the contract can't tell them from its doing.
    """

    kind: SessionFaultKind
    verb: Verb

    def __str__(self) -> str:
        return f"{self.kind}-{self.verb}"

    def error_type(self, *, acted: bool = True, agents_time: bool = False) -> ErrorType | None:
        """What the contract makes of an episode that only ever meets this fault; ``None``: nothing happened.

        ``acted``: whether the agent has acted before. ``agents_time``: whether its actions took at least half
        of the session.
        """
        if self.verb == "close":
            return None
        if self.kind in _PROVIDERS:
            return "provider_error"
        if self.kind == "network":
            return "network_error"
        ours = not acted or self.kind == "supervisor" or (self.kind == "expired" and not agents_time)
        return "sandbox_error" if ours or self.verb == "host" else "policy_sandbox_failure"

    def error(self) -> Exception:
        """A new exception of this kind."""
        return _RAISED[self.kind]()


#: Every kind at every verb at which it changes what becomes of the episode.
SESSION_FAULTS: tuple[SessionFault, ...] = tuple(
    SessionFault(kind, verb) for kind in get_args(SessionFaultKind) for verb in VERBS if verb != "close"
)


class FaultyWorkspace:
    """``inner`` with a fault. It strikes once the verb has done its part, so that only the answer is lost."""

    def __init__(self, inner: Workspace, fault: SessionFault, strikes: Callable[[str], bool]) -> None:
        self.inner = inner
        self.id, self.capabilities = inner.id, inner.capabilities
        self._fault, self._strikes = fault, strikes
        self._gone = self._closed = False

    async def act(self, act: Act) -> Ran:
        """See the base class."""
        self._require()
        ran = await self.inner.act(act)
        self._strike("act", act_text(act))
        return ran

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        """See the base class."""
        self._require()
        tree = await self.inner.copy(last=last, room=room, files=files)
        self._strike("copy", hashlib.sha256(tree).hexdigest())
        return tree

    async def close(self) -> None:
        """See the base class."""
        await self.inner.close()
        if not self._closed:
            self._closed = True
            self._strike("close", "")

    def _strike(self, verb: Verb, text: str) -> None:
        if self._fault.verb == verb and self._strikes(text):
            self._gone = self._fault.kind in _ENDS
            raise self._fault.error()

    def _require(self) -> None:
        if self._gone:
            raise self._fault.error()
