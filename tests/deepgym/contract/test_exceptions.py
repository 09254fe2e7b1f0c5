from __future__ import annotations

import builtins
import errno
import pickle
import socket
import ssl
import urllib.error
from collections.abc import Callable
from typing import Any

import pytest

from deepgym import exceptions
from deepgym.exceptions import (
    DeepGymError,
    Interrupted,
    InvalidEnvironmentError,
    NetworkError,
    NoVerdictError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    SandboxExpiredError,
    UnknownNameError,
    VerifierError,
    is_infrastructure_failure,
)
from deepgym.models import BatchResult, RunResult


def foreign(path: str, *bases: type[BaseException], **attributes: Any) -> BaseException:
    """An exception as another library would raise it; ``path`` is its module and class."""
    module, _, name = path.rpartition(".")
    kind = type(name, bases or (Exception,), {"__module__": module, **attributes})
    return kind("something failed")


class Response:
    def __init__(self, status: object) -> None:
        self.status_code = status


class Unset(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("no response was set")


def os_error(code: int) -> OSError:
    return OSError(code, "failed")


def answered(status: int) -> Callable[[], BaseException]:
    return lambda: ProviderError("no", "x", status)


INFRASTRUCTURE: dict[str, Callable[[], BaseException]] = {
    # Connection and transport.
    "our own network error": lambda: NetworkError("unreachable"),
    "refused": ConnectionRefusedError,
    "reset": lambda: ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    "aborted": ConnectionAbortedError,
    "connection error": ConnectionError,
    "DNS": lambda: socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    "TLS": lambda: ssl.SSLError("bad handshake"),
    "certificate": lambda: ssl.SSLCertVerificationError("expired"),
    "no route": lambda: os_error(errno.EHOSTUNREACH),
    "network down": lambda: os_error(errno.ENETDOWN),
    "kernel's connect time-out": lambda: os_error(errno.ETIMEDOUT),
    "urllib": lambda: urllib.error.URLError("no host"),
    "httpx connect": lambda: foreign("httpx.ConnectError", type(foreign("httpx.TransportError"))),
    "httpx base": lambda: foreign("httpx.TransportError"),
    "httpx in a private module": lambda: foreign("httpx._exceptions.TransportError"),
    "httpcore": lambda: foreign("httpcore.NetworkError"),
    "requests": lambda: foreign("requests.exceptions.ConnectionError", OSError),
    "urllib3": lambda: foreign("urllib3.exceptions.MaxRetryError"),
    "aiohttp": lambda: foreign("aiohttp.client_exceptions.ClientConnectionError"),
    "grpclib": lambda: foreign("grpclib.exceptions.StreamTerminatedError"),
    "e2b": lambda: foreign("e2b.exceptions.ServiceBusyException"),
    "modal": lambda: foreign("modal.exception.ConnectionError"),
    "daytona": lambda: foreign("daytona.common.errors.DaytonaSpotEvictedError"),
    # A provider's time-out.
    "provider timed out": lambda: ProviderError("slow", "x", timed_out=True),
    "httpx time-out": lambda: foreign("httpx.ReadTimeout", type(foreign("httpx.TransportError"))),
    "requests time-out": lambda: foreign("requests.exceptions.Timeout", OSError),
    # HTTP.
    **{f"provider {status}": answered(status) for status in (500, 502, 503, 504, 599, 429, 401, 403)},
    "status of anyone's error": lambda: foreign("sdk.ApiError", status_code=503),
    "status as text": lambda: foreign("sdk.ApiError", status_code="503"),
    "status of a response": lambda: foreign("docker.errors.APIError", response=Response(500)),
    "aiohttp's status": lambda: foreign("aiohttp.ClientResponseError", status=502),
    "urllib 503": lambda: urllib.error.HTTPError("http://x", 503, "no", {}, None),  # type: ignore[arg-type]
    # Eviction.
    "evicted": lambda: ProviderError("gone", "x", evicted=True),
}  # fmt: skip

NOT_INFRASTRUCTURE: dict[str, Callable[[], BaseException]] = {
    "an ordinary error": lambda: ValueError("no"),
    "a dead sandbox": lambda: SandboxDiedError("gone"),
    "an expired sandbox": lambda: SandboxExpiredError("over"),
    "a sandbox error": lambda: SandboxError("no tmpfs"),
    "a run's own time-out": lambda: exceptions.TimeoutError("10 s"),
    "a verifier's failure": lambda: VerifierError("crashed"),
    "a broken pipe": BrokenPipeError,
    "a failed write": lambda: os_error(errno.EPIPE),
    "a full disk": lambda: os_error(errno.ENOSPC),
    "asyncio's word for a lost pipe": lambda: ConnectionResetError("Connection lost"),
    "a bare time-out": builtins.TimeoutError,
    "a file error": lambda: FileNotFoundError(errno.ENOENT, "no"),
    "permission": lambda: PermissionError(errno.EACCES, "no"),
    "end of file": EOFError,
    "a provider's failure without a fact": lambda: ProviderError("odd", "x"),
    **{f"provider {status}": answered(status) for status in (400, 404, 408, 409, 410, 422, 200)},
    "a bool for a status": lambda: foreign("sdk.ApiError", status_code=True),
    "an odd status": lambda: foreign("sdk.ApiError", status_code="5xx"),
    "a status out of range": lambda: foreign("sdk.ApiError", status_code=5030),
    "a status that can't be read": Unset,
    "urllib 404": lambda: urllib.error.HTTPError("http://x", 404, "no", {}, None),  # type: ignore[arg-type]
    "text that looks like it": lambda: RuntimeError("503 Service Unavailable: connection reset by peer"),
    "a class that only looks like it": lambda: foreign("solution.ConnectionError"),
    "e2b's exit status": lambda: foreign("e2b.sandbox.commands.CommandExitException", exit_code=137),
    "e2b's command time-out": lambda: foreign("e2b.exceptions.TimeoutException"),
    "interrupt": KeyboardInterrupt,
}  # fmt: skip


@pytest.mark.parametrize("make", INFRASTRUCTURE.values(), ids=INFRASTRUCTURE)
def test_what_the_contract_lists_is_infrastructure(make: Callable[[], BaseException]) -> None:
    assert is_infrastructure_failure(make())


@pytest.mark.parametrize("make", NOT_INFRASTRUCTURE.values(), ids=NOT_INFRASTRUCTURE)
def test_nothing_else_is_infrastructure(make: Callable[[], BaseException]) -> None:
    assert not is_infrastructure_failure(make())


def caught(
    outer: BaseException,
    cause: BaseException | None = None,
    context: BaseException | None = None,
    suppress: bool = False,
) -> BaseException:
    outer.__cause__, outer.__context__ = cause, context
    outer.__suppress_context__ = suppress
    return outer


def test_a_cause_counts() -> None:
    assert is_infrastructure_failure(caught(RuntimeError("x"), cause=ConnectionRefusedError(), suppress=True))


def test_a_context_counts_unless_it_is_suppressed() -> None:
    assert is_infrastructure_failure(caught(RuntimeError("x"), context=NetworkError()))
    assert not is_infrastructure_failure(caught(RuntimeError("x"), context=NetworkError(), suppress=True))


def test_a_cause_hides_the_context() -> None:
    hidden = caught(RuntimeError("x"), cause=ValueError("y"), context=NetworkError(), suppress=True)
    assert not is_infrastructure_failure(hidden)


def test_the_chain_is_followed_to_its_end() -> None:
    exc: BaseException = NetworkError()
    for _ in range(2000):
        exc = caught(RuntimeError("x"), context=exc)
    assert is_infrastructure_failure(exc)


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = RuntimeError("x"), RuntimeError("y")
    caught(first, context=second)
    caught(second, context=first)
    assert not is_infrastructure_failure(first)


@pytest.mark.parametrize(
    "shield", [SandboxDiedError(), BrokenPipeError(), exceptions.TimeoutError(), SandboxExpiredError()]
)
def test_what_a_policy_can_bring_about_hides_what_stands_behind_it(shield: BaseException) -> None:
    assert not is_infrastructure_failure(caught(shield, cause=ConnectionResetError(104, "reset")))
    assert not is_infrastructure_failure(caught(RuntimeError("x"), context=shield))


def test_what_stands_in_front_of_a_broken_pipe_counts() -> None:
    exc = caught(foreign("httpx.TransportError"), cause=BrokenPipeError())
    assert is_infrastructure_failure(exc)


@pytest.mark.parametrize("path", ["builtins.TimeoutError", "asyncio.exceptions.TimeoutError"])
def test_a_time_out_counts_as_the_cause_of_a_providers_failure_alone(path: str) -> None:
    late = builtins.TimeoutError() if path.startswith("builtins") else foreign(path)
    assert is_infrastructure_failure(caught(ProviderError("no reply", "x"), cause=late))
    assert not is_infrastructure_failure(caught(RuntimeError("no reply"), cause=late))
    assert not is_infrastructure_failure(caught(late, context=ProviderError("odd", "x")))


def test_a_status_that_is_not_infrastructure_does_not_end_the_search() -> None:
    assert is_infrastructure_failure(caught(ProviderError("gone", "x", 404), cause=NetworkError()))


def test_a_transport_class_with_an_innocent_status_is_the_status() -> None:
    assert not is_infrastructure_failure(foreign("httpx.TransportError", status_code=404))


class BaseExceptionGroup(Exception):
    """Named as the builtin, which Python 3.10 hasn't got."""

    def __init__(self, *members: BaseException) -> None:
        super().__init__("several")
        self.exceptions = members


def test_a_group_counts_if_all_its_members_do() -> None:
    assert is_infrastructure_failure(BaseExceptionGroup(NetworkError(), ConnectionRefusedError()))
    assert not is_infrastructure_failure(BaseExceptionGroup(NetworkError(), ValueError()))
    assert is_infrastructure_failure(caught(RuntimeError("x"), cause=BaseExceptionGroup(NetworkError())))


def test_libraries_are_recognised_without_being_imported() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import sys, deepgym.exceptions as e; e.is_infrastructure_failure(e.ProviderError('x', 'x', 503));"
        "assert not {'httpx', 'requests', 'urllib3', 'docker', 'ssl', 'pydantic'} & set(sys.modules)"
    )
    path = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


RESULT = RunResult(score=0.0, error_type="sandbox_error")
ERRORS: list[BaseException] = [
    DeepGymError("x"),
    SandboxError("x", RESULT),
    SandboxDiedError("x", RESULT),
    SandboxExpiredError("x", RESULT),
    ProviderError("x", "docker", 503, True, True, RESULT),
    NetworkError("x", RESULT),
    exceptions.TimeoutError("x", RESULT),
    VerifierError("x", RESULT),
    NoVerdictError("x", RESULT),
    InvalidEnvironmentError("x"),
    UnknownNameError.among("environment", "two_summ", ["two_sum"]),
    Interrupted("x", BatchResult(results=(RESULT,))),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_after_pickling(error: BaseException) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


def test_our_time_out_is_not_the_builtin() -> None:
    assert not issubclass(exceptions.TimeoutError, builtins.TimeoutError)
    assert not issubclass(exceptions.TimeoutError, SandboxError)
    assert not issubclass(NoVerdictError, (builtins.TimeoutError, OSError))


def test_errors_are_caught_by_what_they_are() -> None:
    assert issubclass(InvalidEnvironmentError, ValueError)
    assert issubclass(UnknownNameError, LookupError)
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert not issubclass(Interrupted, DeepGymError)


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("lr", ["lru", "lfu"], "unknown environment 'lr'; did you mean 'lru'?"),
        ("suma", ["sum", "sumb"], "unknown environment 'suma'; did you mean 'sum' or 'sumb'?"),
        ("TWO_SUM", ["two_sum"], "unknown environment 'TWO_SUM'; did you mean 'two_sum'?"),
        ("zzz", ["b", "a"], "unknown environment 'zzz'; known: a, b"),
        ("zzz", [], "unknown environment 'zzz'; none is known"),
    ],
)  # fmt: skip
def test_an_unknown_name_names_the_closest(name: str, known: list[str], message: str) -> None:
    error = UnknownNameError.among("environment", name, known)
    assert (str(error), error.name) == (message, name)


def test_an_unknown_name_does_not_list_everything() -> None:
    text = str(UnknownNameError.among("environment", "zzz", [f"a{i}" for i in range(100)]))
    assert text.endswith(", ...")
    assert len(text) < 200
