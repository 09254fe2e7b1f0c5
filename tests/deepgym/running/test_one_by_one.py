"""Cases with a ``case_timeout``: what becomes of a failure after a case took its process with it."""

from __future__ import annotations

import time
from typing import Any, Literal

import anyio

from deepgym import AsyncDeepGym, RunResult
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits
from deepgym.providers.base import Capabilities, Exit, Job, Spec

ENV = Environment(
    name="t",
    task="t",
    verify=Cases(function="f", cases=(Case(args=(1,), expected=1), Case(args=(2,), expected=2))),
    limits=EnvironmentLimits(wall=5.0, case_timeout=0.05),
)


class Scripted:
    """Processes that come up as told: "silent" (marks and never replies), "broken" (never set up), "right"."""

    name, id = "scripted", "scripted-0"
    capabilities = Capabilities(isolation="none")

    def __init__(self, *kinds: str) -> None:
        self.kinds = list(kinds)

    async def open(self, spec: Spec) -> Any:
        return self

    async def start(self, job: Job) -> Any:
        return _Process(self.kinds.pop(0))

    def opened_by_verifier(self) -> Literal["no"]:
        return "no"

    async def close(self) -> None: ...


class _Process:
    stdout = stderr = b""
    replies, truncated, overflow = b"", False, False

    def __init__(self, kind: str) -> None:
        self.kind, self.asked = kind, b""
        self.marked_at = None if kind == "broken" else time.monotonic()
        self.running = kind != "broken"

    async def send(self, data: bytes) -> None:
        self.asked = data

    async def finish_requests(self) -> None: ...

    async def line(self, timeout: float) -> bytes | None:
        if self.kind != "right":
            return None
        number = self.asked.split(b'"id":')[1][:1]
        return b'{"id":%b,"v":%b}' % (number, number)

    async def end(self, wall: float) -> Exit:
        return Exit(setup_error="no memory") if self.kind == "broken" else Exit(code=0)

    async def settle(self) -> Exit:
        return await self.end(0.0)

    async def kill(self) -> None:
        self.running = False


def judged(*kinds: str) -> RunResult:
    async def main() -> RunResult:
        batch = await AsyncDeepGym(provider=Scripted(*kinds)).run_batch(ENV, ["def f(x): return x"])  # type: ignore[arg-type]
        return batch.results[0]

    return anyio.run(main)


def test_the_rest_is_asked_of_a_fresh_process() -> None:
    result = judged("silent", "right")
    assert [case.outcome for case in result.cases] == ["timeout", "passed"]
    assert (result.score, result.error_type) == (0.5, None)


def test_an_answer_whose_fresh_process_cant_be_set_up_is_graded_once_more() -> None:
    result = judged("silent", "broken", "silent", "right")
    assert (result.score, result.error_type) == (0.5, None)


def test_an_answer_whose_fresh_process_cant_be_set_up_twice_is_judged() -> None:
    """What its first process left behind may be the reason, so it is no way out of a 0."""
    result = judged("silent", "broken", "silent", "broken")
    assert (result.has_verdict, result.score, result.error_type) == (True, 0.0, "policy_sandbox_failure")
