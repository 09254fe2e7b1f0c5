"""Whose failure ended an episode: the contract's table, and what it can't read."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import errno
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym import exceptions
from deepgym.exceptions import (
    NetworkError,
    NoVerdictError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    SandboxExpiredError,
    SessionError,
    SupervisorError,
    VerifierError,
    is_infrastructure_failure,
)
from deepgym.models import MODEL_FAULT_ERRORS, RunResult
from deepgym.providers.base import ZygoteDiedError
from deepgym.session import failure_result


def foreign(path: str, *bases: type[BaseException], **attributes: Any) -> BaseException:
    """An exception as another library would raise it; ``path`` is its module and class."""
    module, _, name = path.rpartition(".")
    kind = type(name, bases or (Exception,), {"__module__": module, **attributes})
    return kind("something failed")


def raising(name: str) -> BaseException:
    """An exception whose attribute ``name`` can't be read."""

    def read(self: object) -> object:
        raise RuntimeError("not yet")

    return type("Unreadable", (Exception,), {name: property(read)})("no")


def group(*members: BaseException) -> BaseException:
    if sys.version_info < (3, 11):
        from exceptiongroup import BaseExceptionGroup
    else:
        BaseExceptionGroup = builtins.BaseExceptionGroup
    return BaseExceptionGroup("some", list(members))


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Numeric(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


OURS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "network": (lambda: NetworkError("gone"), "network_error"),
    "our own process": (lambda: SupervisorError("no descriptors"), "sandbox_error"),
    "refused": (ConnectionRefusedError, "provider_error"),
    "reset": (lambda: ConnectionResetError(errno.ECONNRESET, "reset"), "provider_error"),
    "no route": (lambda: OSError(errno.EHOSTUNREACH, "no route"), "provider_error"),
    "httpx": (lambda: foreign("httpx.TransportError"), "provider_error"),
    "a provider's call timed out": (lambda: ProviderError("slow", "x", timed_out=True), "provider_error"),
    **{
        f"provider {status}": (lambda status=status: ProviderError("no", "x", status), "provider_error")  # type: ignore[misc]
        for status in (500, 502, 503, 599, 429, 401, 403)
    },
    "evicted": (lambda: ProviderError("spot", "x", evicted=True), "provider_error"),
    "a group of ours": (lambda: group(NetworkError("a"), ProviderError("b", "x", 503)), "provider_error"),
    "caused by the network": (lambda: caused(RuntimeError("step"), NetworkError("a")), "provider_error"),
    "verifier": (lambda: VerifierError("couldn't run"), "verifier_error"),
    "verifier's time": (lambda: exceptions.TimeoutError("before it read"), "timeout"),
    "end of the sandbox's life": (lambda: SandboxExpiredError("24 h"), "sandbox_error"),
}

THE_AGENTS: dict[str, Callable[[], BaseException]] = {
    "died": lambda: SandboxDiedError("gone"),
    "died with its zygote": lambda: ZygoteDiedError("gone"),
    "broken pipe": BrokenPipeError,
    "a failed write": lambda: OSError(errno.EPIPE, "no"),
    "a full disk": lambda: OSError(errno.ENOSPC, "no"),
    "a file error": lambda: FileNotFoundError(errno.ENOENT, "no"),
    "a sandbox error": lambda: SandboxError("no"),
    "a session error": lambda: SessionError("no"),
    "no verdict asked for": lambda: NoVerdictError("no"),
    "a provider without a fact": lambda: ProviderError("odd", "x"),
    **{
        f"provider {status}": lambda status=status: ProviderError("no", "x", status)  # type: ignore[misc]
        for status in (200, 400, 404, 408, 409, 410, 422)
    },
    "a bare time-out": builtins.TimeoutError,
    "asyncio's time-out": asyncio.TimeoutError,
    "a future's time-out": concurrent.futures.TimeoutError,
    "key": lambda: KeyError("x"),
    "value": lambda: ValueError("no"),
    "decode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
    "end of file": EOFError,
    "recursion": RecursionError,
    "memory": MemoryError,
    "assertion": AssertionError,
    "keyboard": KeyboardInterrupt,
    "exit": lambda: SystemExit(2),
    "stop": StopIteration,
    "a mixed group": lambda: group(NetworkError("a"), SandboxDiedError("b")),
    "a group of others": lambda: group(ValueError("a")),
    "a group in a group": lambda: group(group(NetworkError("a")), group(KeyError("b"))),
    "died by the network": lambda: caused(SandboxDiedError("gone"), NetworkError("a")),
    "no words": Speechless,
    "a number for words": Numeric,
    "a status that can't be read": lambda: raising("status_code"),
    "a response that can't be read": lambda: raising("response"),
    "a result that can't be read": lambda: raising("result"),
    "a cause that goes in a ring": lambda: caused(*(2 * (ValueError("a"),))),
    "text of two megabytes": lambda: ValueError("x" * (2 << 20)),
    "surrogates": lambda: ValueError("\udcff\ud800"),
    "text that looks like ours": lambda: RuntimeError("503 Service Unavailable: connection reset by peer"),
    "a class that looks like ours": lambda: foreign("solution.NetworkError"),
}


def survives(result: RunResult) -> bool:
    text = result.model_dump_json()
    return RunResult.model_validate_json(text) == result and len(text) < 10_000


@pytest.mark.parametrize(("make", "error_type"), OURS.values(), ids=OURS)
def test_what_is_certainly_ours_has_no_verdict(make: Callable[[], BaseException], error_type: str) -> None:
    result = failure_result(make(), "box")
    assert (result.has_verdict, result.score, result.passed) == (False, 0.0, False)
    assert result.error_type == error_type
    assert result.sandbox_id == "box"
    assert survives(result)


@pytest.mark.parametrize("make", THE_AGENTS.values(), ids=THE_AGENTS)
def test_everything_else_is_the_agents_zero(make: Callable[[], BaseException]) -> None:
    result = failure_result(make(), "box")
    assert (result.has_verdict, result.score, result.passed) == (True, 0.0, False)
    assert result.error_type == "policy_sandbox_failure"
    assert result.error
    assert survives(result)


@pytest.mark.parametrize("make", THE_AGENTS.values(), ids=THE_AGENTS)
def test_what_is_infrastructure_is_never_the_agents_and_what_isnt_seldom_ours(
    make: Callable[[], BaseException],
) -> None:
    assert not is_infrastructure_failure(make())


def test_the_message_names_the_class_and_what_it_said() -> None:
    result = failure_result(SandboxDiedError("the sandbox ended"), None)
    assert result.error == "SandboxDiedError: the sandbox ended"
    assert result.sandbox_id is None


# The provider's end of the sandbox's life.

HALF: list[tuple[object, object, bool]] = [
    # agent_seconds, session_seconds, is it ours?
    (0.0, 100.0, True),
    (49.999, 100.0, True),
    (50.0, 100.0, False),
    (50, 100, False),
    (50.001, 100.0, False),
    (100.0, 100.0, False),
    (200.0, 100.0, False),
    (0.0, 0.0, True),
    (1e-9, 0.0, False),
    (1e-9, 1.0, True),
    (0, 10**12, True),
    (None, 100.0, True),
    (50.0, None, True),
    (None, None, True),
    # What can't be read is the agent's.
    (math.nan, 100.0, False),
    (1.0, math.nan, False),
    (math.inf, 100.0, False),
    (1.0, math.inf, False),
    (-math.inf, 100.0, False),
    (-1.0, 100.0, False),
    (1.0, -100.0, False),
    (True, 100.0, False),
    (False, True, False),
    (1.0, True, False),
    ("1.0", 100.0, False),
    (1.0, "100", False),
    (b"1", 100.0, False),
    ([1.0], 100.0, False),
    (1j, 100.0, False),
    (10**400, 10**400, False),
    (1, 10**5000, False),
    (10**5000, 1, False),
    (object(), 100.0, False),
    (Speechless(), 100.0, False),
]


@pytest.mark.parametrize(("agent", "session", "ours"), HALF, ids=lambda value: type(value).__name__)
def test_an_expired_sandbox_is_ours_unless_the_agent_took_half_of_its_session(
    agent: Any, session: Any, ours: bool
) -> None:
    result = failure_result(SandboxExpiredError("24 h"), "box", agent_seconds=agent, session_seconds=session)
    assert result.has_verdict is not ours
    assert result.error_type == ("sandbox_error" if ours else "policy_sandbox_failure")
    assert result.score == 0.0
    assert survives(result)


@pytest.mark.parametrize("make", [SandboxDiedError, BrokenPipeError], ids=["died", "pipe"])
def test_only_an_expired_sandbox_asks_for_times(make: Callable[[], BaseException]) -> None:
    assert failure_result(make(), "box", agent_seconds=0.0, session_seconds=100.0).has_verdict
    assert not failure_result(NetworkError(), "box", agent_seconds=100.0, session_seconds=100.0).has_verdict


@given(st.floats() | st.integers() | st.none(), st.floats() | st.integers() | st.none())
def test_no_times_raise(agent: Any, session: Any) -> None:
    result = failure_result(SandboxExpiredError(), "box", agent_seconds=agent, session_seconds=session)
    assert result.has_verdict == (result.error_type in MODEL_FAULT_ERRORS)
    assert survives(result)


@given(st.floats(0, 1e6, allow_subnormal=False), st.floats(0, 1e6, allow_subnormal=False))
def test_half_is_half(agent: float, session: float) -> None:
    result = failure_result(SandboxExpiredError(), "box", agent_seconds=agent, session_seconds=session)
    assert result.has_verdict == (agent > 0 and agent >= session / 2)


# Errors that carry a result.


def test_a_result_without_a_verdict_is_kept_whatever_carries_it() -> None:
    given = RunResult(score=0.0, error_type="timeout", error="before it read", sandbox_id="other")
    for error in (SandboxError("x", given), VerifierError("x", given), SandboxDiedError("x", given)):
        assert failure_result(error, "box") == given


def test_a_result_with_a_verdict_isnt_a_failures() -> None:
    passed = RunResult(score=1.0, passed=True, exit_code=0)
    result = failure_result(SandboxDiedError("x", passed), "box")
    assert (result.score, result.passed, result.error_type) == (0.0, False, "policy_sandbox_failure")
    assert not failure_result(VerifierError("x", passed), "box").has_verdict


@pytest.mark.parametrize(
    "value", [None, 1, "x", {"score": 1.0}, object()], ids=lambda value: type(value).__name__
)
def test_something_else_that_is_called_result_is_none(value: object) -> None:
    error = type("Odd", (Exception,), {"result": value})("x")
    assert failure_result(error, "box").error_type == "policy_sandbox_failure"


@pytest.mark.parametrize("where", ["", "x" * 10_000, "\udcff"], ids=["empty", "long", "surrogate"])
def test_any_id_of_a_sandbox_will_do(where: str) -> None:
    assert survives(failure_result(SandboxDiedError("x"), where))
