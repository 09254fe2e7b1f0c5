"""The errors that DeepGym raises, and which of them are nobody's fault but the infrastructure's.

::

    DeepGymError
    ├── SandboxError                 no verdict: the place for a run failed before the answer was in play
    │   ├── SandboxDiedError         a sandbox died; never infrastructure, for its policy may have killed it
    │   ├── SandboxExpiredError      the provider retired the sandbox at the end of its lifetime
    │   ├── SupervisorError          our own process lacked something: descriptors, memory, threads
    │   ├── ProviderError            the provider answered with a failure, timed out or evicted the sandbox
    │   └── NetworkError             the provider couldn't be reached
    ├── TimeoutError                 a run's own time was over; not the builtin, and not a provider's time-out
    ├── VerifierError                the verifier failed, so nothing was judged
    ├── SessionError                 a session was used in a way or at a time that it can't be
    ├── NoVerdictError               a caller asked for a reward where there is none
    ├── InvalidEnvironmentError      (ValueError) an environment that can't be what its author meant
    ├── MissingPackageError          (ImportError) an optional package isn't installed
    └── UnknownNameError             (LookupError) no such environment, suite, provider or field

    Interrupted                      (KeyboardInterrupt) carries what a batch had finished

Every class keeps its arguments positional, so that it survives pickling between worker processes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgym.models import BatchResult, RunResult

__all__ = [
    "DeepGymError",
    "Interrupted",
    "InvalidEnvironmentError",
    "MissingPackageError",
    "NetworkError",
    "NoVerdictError",
    "ProviderError",
    "SandboxDiedError",
    "SandboxError",
    "SandboxExpiredError",
    "SessionError",
    "SupervisorError",
    "TimeoutError",
    "UnknownNameError",
    "VerifierError",
    "is_infrastructure_failure",
]


class DeepGymError(Exception):
    """Base of every error that DeepGym raises on purpose."""


class _RunError(DeepGymError):
    """An error about one run; ``result`` is that run's result without a verdict, if there is one."""

    def __init__(self, message: str = "", result: RunResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class SandboxError(_RunError):
    """The place for a run couldn't be had, or failed before the answer came into play."""


class SandboxDiedError(SandboxError):
    """A sandbox ended while something was still asked of it. Never infrastructure."""


class SandboxExpiredError(SandboxError):
    """The provider retired the sandbox because its lifetime was over."""


class SupervisorError(SandboxError):
    """Our own process couldn't do its part: no descriptors, no memory, a fault of its own. Always
    infrastructure, for no policy reaches it.
    """


class ProviderError(SandboxError):
    """A provider's own failure.

    It counts as infrastructure only by a fact: ``status_code`` (the provider's HTTP answer),
    ``timed_out`` (a call to the provider got no answer in time; not a command that ran too long),
    ``evicted`` (the control plane took the sandbox away), or a cause that is one of these.
    """

    def __init__(
        self,
        message: str = "",
        provider: str = "",
        status_code: int | None = None,
        timed_out: bool = False,
        evicted: bool = False,
        result: RunResult | None = None,
    ) -> None:
        super().__init__(message, result)
        self.provider = provider
        self.status_code = status_code
        self.timed_out = timed_out
        self.evicted = evicted


class NetworkError(SandboxError):
    """The provider couldn't be reached, or the way to it broke. Always infrastructure."""


class TimeoutError(_RunError):
    """A run's own time limit ran out before the answer came into play.

    Not the builtin ``TimeoutError``, which some trainers turn into a reward of 0.
    """


class VerifierError(_RunError):
    """The verifier crashed, or printed no result, before the answer came into play."""


class SessionError(DeepGymError):
    """A step before ``reset``, after the end of the episode or after ``close``; says what to call instead."""


class NoVerdictError(_RunError):
    """A reward was asked for where there is none; leave the sample out of training."""


class InvalidEnvironmentError(DeepGymError, ValueError):
    """An environment's data contradict themselves, or hold something unknown."""


class UnknownNameError(DeepGymError, LookupError):
    """A name that isn't known; the message names the closest ones that are."""

    def __init__(self, message: str = "", name: str = "", matches: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.matches = matches

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """The error for ``name`` among ``known`` names of a ``kind`` ("environment", "suite", ...)."""
        import difflib

        names = sorted(set(known))
        folded = {known_name.casefold(): known_name for known_name in names}
        close = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.5)
        matches = tuple(folded[match] for match in close)
        if matches:
            hint = f"did you mean {' or '.join(repr(match) for match in matches)}?"
        elif names:
            hint = f"known: {', '.join(names[:20])}" + (", ..." if len(names) > 20 else "")
        else:
            hint = "none is known"
        return cls(f"unknown {kind} {name!r}; {hint}", name, matches)


class MissingPackageError(DeepGymError, ImportError):
    """A package that is only needed for this isn't installed; the message has the line that installs it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a batch; ``batch`` holds every result, unfinished ones without a verdict."""

    def __init__(self, message: str = "", batch: BatchResult | None = None) -> None:
        super().__init__(message)
        self.batch = batch


def is_infrastructure_failure(exc: BaseException) -> bool:
    """Whether ``exc`` is certainly a failure of the infrastructure, and so no verdict at any point.

    True for a connection or transport error (DNS and TLS included), a call to the provider that timed
    out, a provider's HTTP 5xx or 429, its refusal of our credentials (401, 403), and its eviction of the
    sandbox. Looks along ``__cause__`` and ``__context__`` (unless suppressed) and stops, with False, at
    what a policy can bring about: ``SandboxDiedError``, ``SandboxExpiredError``, DeepGym's
    ``TimeoutError`` and a broken pipe. A group of exceptions counts if all its members do. False for
    whatever this rule can't read, a bare builtin ``TimeoutError`` among it: that may be the wait for a
    policy's own process. It counts as the cause of a ``ProviderError``, or with the kernel's ``ETIMEDOUT``.

    Classes of other libraries are known by module and name, so none of those is imported.
    """
    in_provider_call = False
    for link in _chain(exc):
        if isinstance(link, _THE_POLICYS) or _is_lost_pipe(link):
            return False
        members = _members(link)
        if members:
            return all(is_infrastructure_failure(member) for member in members)
        in_provider_call = in_provider_call or isinstance(link, ProviderError)
        if _is_infrastructure(link) or (in_provider_call and _names(link) & _TIMEOUTS):
            return True
    return False


_THE_POLICYS = (SandboxDiedError, SandboxExpiredError, TimeoutError, BrokenPipeError)
_TIMEOUTS = frozenset({"builtins.TimeoutError", "asyncio.TimeoutError", "concurrent.TimeoutError"})
_REFUSALS = frozenset({401, 403, 429})
_NO_ROUTE = frozenset(
    getattr(errno, name)
    for name in ("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "ETIMEDOUT")
    if hasattr(errno, name)
)
#: Package and class name of what other libraries raise for a connection, a transport or a time-out of it.
_TRANSPORT = frozenset(
    f"{package}.{name}"
    for package, names in {
        "socket": "gaierror herror",
        "ssl": "SSLError",
        "http": "IncompleteRead BadStatusLine",
        "urllib": "URLError",
        "httpx": "TransportError",
        "httpcore": "NetworkError TimeoutException ProtocolError ProxyError",
        "requests": "ConnectionError Timeout ChunkedEncodingError RetryError",
        "urllib3": "TimeoutError ProtocolError MaxRetryError ProxyError SSLError NewConnectionError",
        "aiohttp": "ClientConnectionError ClientPayloadError",
        "websockets": "ConnectionClosedError InvalidHandshake",
        "grpclib": "StreamTerminatedError",
        "daytona": "DaytonaConnectionError DaytonaQueueTimeoutError DaytonaSpotEvictedError",
        "e2b": "RateLimitException AuthenticationException ServiceBusyException",
        "modal": "ConnectionError ServiceError InternalError ResourceExhaustedError AuthError",
    }.items()
    for name in names.split()
)


def _is_infrastructure(exc: BaseException) -> bool:
    if isinstance(exc, (NetworkError, SupervisorError)):
        return True
    if isinstance(exc, ProviderError) and (exc.timed_out or exc.evicted):
        return True
    if isinstance(exc, OSError) and (isinstance(exc, ConnectionError) or exc.errno in _NO_ROUTE):
        return True
    return _is_telling(_status(exc)) or (bool(_names(exc) & _TRANSPORT) and _status(exc) is None)


def _is_lost_pipe(exc: BaseException) -> bool:
    # asyncio's drain() says so, without an errno, of any stream whose other end is gone: of a pipe too.
    return isinstance(exc, ConnectionResetError) and exc.args == ("Connection lost",)


def _is_telling(status: int | None) -> bool:
    return status is not None and (500 <= status <= 599 or status in _REFUSALS)


def _status(exc: BaseException) -> int | None:
    response = _attribute(exc, "response")
    for holder, name in (
        (exc, "status_code"),
        (response, "status_code"),
        (exc, "status"),
        (response, "status"),
    ):
        status = _number(_attribute(holder, name))
        if status is not None:
            return status
    return None


def _number(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
        return int(value)
    return None


def _attribute(holder: object, name: str) -> object:
    # Some libraries' exceptions raise from a property whose object was never set.
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001
        return None


def _names(exc: BaseException) -> set[str]:
    return {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(exc).__mro__}


def _members(exc: BaseException) -> tuple[BaseException, ...]:
    # By name, for on Python 3.10 groups come from a package of their own.
    if not any(base.__name__ == "BaseExceptionGroup" for base in type(exc).__mro__):
        return ()
    members: tuple[BaseException, ...] = getattr(exc, "exceptions", ())
    return members


def _chain(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        if link.__cause__ is not None:
            link = link.__cause__
        else:
            link = None if link.__suppress_context__ else link.__context__
