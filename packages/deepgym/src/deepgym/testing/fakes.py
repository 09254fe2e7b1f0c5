"""A provider without processes: what each answer does is scripted.

    provider = FakeProvider({"good": Behaviour.calls(lambda a, b: a + b), "bomb": Behaviour.dies()})

It keeps the local provider's manners: a solution marks, then replies one JSON line a request; a
verifier's report comes over its channel with the host's facts behind it. Nothing waits for real time,
so an endless loop ends at once with its limit's clock. Sessions are scripted by ``FakeSessions``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import anyio
import anyio.lowlevel

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Capabilities, Exit, Job, Place, Process, Sandbox, Spec
from deepgym.sandboxed.values import pack, unpack
from deepgym.sandboxed.wire import LOOKED, clean, decode, encode
from deepgym.testing.behaviours import UNKNOWN, Behaviour
from deepgym.testing.drawing import draw
from deepgym.testing.sessions import FakeSessions, FakeWorkspace

__all__ = ["Behaviour", "FakeProcess", "FakeProvider", "FakeSandbox", "job_text"]

_FACTS = {"fault": None, "calls": 0, "ran_to_its_end": True}


class FakeProvider:
    """A provider whose ``script`` says what each answer does; a bare callable stands for ``Behaviour.calls``.

    Answers are looked up without their outer blank space. One that isn't scripted does ``otherwise``: by
    default it defines nothing, so every case raises and a verifier reports 0. ``started`` counts each
    answer's runs (those of an agent's work by its hash), ``opened`` and ``closed`` the sandboxes, ``busiest``
    the most that were open at once. ``workspaces`` are the sandboxes of sessions, in order.
    """

    name = "fake"

    def __init__(
        self,
        script: Mapping[str, Behaviour | Callable[..., Any]] | None = None,
        *,
        otherwise: Behaviour | Callable[..., Any] = UNKNOWN,
        sessions: FakeSessions | None = None,
    ) -> None:
        self.script = {answer.strip(): _behaviour(what) for answer, what in (script or {}).items()}
        self.otherwise = _behaviour(otherwise)
        self.sessions = FakeSessions() if sessions is None else sessions
        self.workspaces: list[FakeWorkspace] = []
        self.started: Counter[str] = Counter()
        self.opened = self.closed = self.busiest = 0

    @property
    def capabilities(self) -> Capabilities:
        """Nothing is enforced: no process ever runs."""
        return Capabilities(isolation="fake")

    async def open(self, spec: Spec) -> Sandbox:
        """A sandbox, at once."""
        await anyio.lowlevel.checkpoint()
        self.opened += 1
        self.busiest = max(self.busiest, self.opened - self.closed)
        return FakeSandbox(self, spec, f"fake-{self.opened}")

    async def host(self, place: Place) -> FakeWorkspace:
        """A sandbox for a session, at once."""
        await anyio.lowlevel.checkpoint()
        workspace = self.sessions.host(place, f"fake-session-{len(self.workspaces) + 1}")
        self.workspaces.append(workspace)
        return workspace

    async def close(self) -> None:
        """Nothing to do."""

    def behaviour(self, job: Job) -> Behaviour:
        """What the answer that ``job`` is about does, or what a verifier makes of an agent's work."""
        if job.tree is not None:
            return self.sessions.judge(job.tree)
        return self.script.get(job_text(job), self.otherwise)


def job_text(job: Job) -> str:
    """What the answer of a job is known by: its text without outer blank space; of an agent's work, its hash
    (a result's ``answer_sha256``).
    """
    if job.tree is not None:
        return hashlib.sha256(job.tree).hexdigest()
    text = job.text if job.role == "solution" else job.answer or b""
    return text.decode("utf-8", "replace").strip()


class FakeSandbox:
    """See ``deepgym.providers.base.Sandbox``."""

    capabilities = Capabilities(isolation="fake")

    def __init__(self, provider: FakeProvider, spec: Spec, id: str) -> None:
        self.id = id
        self.spec = spec
        self.provider = provider
        self.linked: FakeProcess | None = None
        self._opened: Literal["no", "watch", "watch_lost"] = "no"
        self._closed = False

    async def start(self, job: Job) -> Process:
        """A process that has already done what its script says, as far as it wasn't asked."""
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if job.role == "solution":
            return self._solution(job)
        return draw_process(job) if job.answer is None and job.tree is None else self._verifier(job)

    def opened_by_verifier(self) -> Literal["no", "watch", "watch_lost"]:
        """See the base class."""
        return self._opened

    async def close(self) -> None:
        """See the base class."""
        if not self._closed:
            self._closed = True
            self.provider.closed += 1

    def _solution(self, job: Job) -> FakeProcess:
        behaviour = self.provider.behaviour(job)
        self.provider.started[job_text(job)] += 1
        process = FakeProcess(behaviour, behaviour.exit)
        if job.linked:
            self.linked = process
        else:
            process.mark()
            process.ask(job.requests)
        return process

    def _verifier(self, job: Job) -> FakeProcess:
        behaviour = self.provider.behaviour(job)
        if behaviour.asks and self.linked is not None:
            self.linked.mark()
        looks = behaviour.opens and job.tree is not None
        if behaviour.opens and not looks:
            self._opened = "watch"
        own = replace(behaviour, stdout=b"", stderr=behaviour.verifier_stderr)
        process = FakeProcess(own, behaviour.verifier_exit)
        process.mark()
        process.replies += (LOOKED if looks else b"") + _report(behaviour)
        return process


class FakeProcess:
    """See ``deepgym.providers.base.Process``."""

    def __init__(self, behaviour: Behaviour, ending: Exit) -> None:
        self.marked_at: float | None = None
        self.replies = bytearray()
        self.stdout, self.stderr = bytearray(behaviour.stdout), bytearray(behaviour.stderr)
        self.truncated = self.overflow = False
        self.exit: Exit | None = None
        self._behaviour, self._ending = behaviour, ending
        self._asked = self._read = 0
        self._silent = False

    @property
    def running(self) -> bool:
        """See the base class."""
        return self.exit is None

    def mark(self) -> None:
        """Come into play, unless the script says that it never does."""
        if self._behaviour.marks:
            self.marked_at = time.monotonic()

    def ask(self, requests: bytes) -> None:
        """Reply to each request line, as far as the script goes."""
        limit = self._behaviour.replies
        for line in requests.splitlines():
            if limit is not None and self._asked >= limit:
                self._silent = True
                return
            self._asked += 1
            self.replies += _reply(self._behaviour, decode(line)) + b"\n"

    async def send(self, data: bytes) -> None:
        """See the base class."""
        await anyio.lowlevel.checkpoint()
        if self.exit is None:
            self.ask(data)

    async def finish_requests(self) -> None:
        """See the base class."""

    async def line(self, timeout: float) -> bytes | None:
        """See the base class."""
        await anyio.lowlevel.checkpoint()
        found = self.replies.find(b"\n", self._read)
        if found < 0:
            if self._silent and self._ending.clock is None:
                await self.end(timeout)
            return None
        line = bytes(self.replies[self._read : found])
        self._read = found + 1
        return line

    async def end(self, wall: float) -> Exit:
        """See the base class."""
        await anyio.sleep(self._behaviour.seconds)
        if self.exit is None:
            self.exit = self._ending if self.marked_at is not None else _never_marked(self._ending)
        return self.exit

    async def settle(self) -> Exit:
        """See the base class."""
        if self.exit is None:
            self.exit = self._ending
        return self.exit

    async def kill(self) -> None:
        """See the base class."""
        if self.exit is None:
            self.exit = Exit(killed=True)


def draw_process(job: Job) -> FakeProcess:
    """A verifier that only draws an environment's cases; that source is trusted, so it runs here."""
    process = FakeProcess(Behaviour(), Exit(code=0))
    process.mark()
    process.replies += _with_facts(encode(draw(job.text, job.head.get("seed"))), None)
    return process


def _never_marked(ending: Exit) -> Exit:
    if ending.clock is not None:
        return replace(ending, clock="setup")
    return ending


def _behaviour(what: Behaviour | Callable[..., Any]) -> Behaviour:
    return what if isinstance(what, Behaviour) else Behaviour.calls(what)


def _reply(behaviour: Behaviour, request: dict[str, Any]) -> bytes:
    if behaviour.raw is not None:
        return behaviour.raw
    try:
        return encode({"id": request["id"], "v": pack(_value(behaviour, request))})
    except Exception as error:  # noqa: BLE001 - an answer's own exception is a reply
        message = clean(str(error), 300)
        return encode({"id": request["id"], "e": type(error).__name__, "m": message})


def _value(behaviour: Behaviour, request: dict[str, Any]) -> Any:
    if behaviour.call is None:
        raise NameError("the answer defines nothing")
    if "run" in request:
        printed = behaviour.call(request["run"]["in"])
        return {"out": printed, "err": "", "exit": 0, "timed_out": False, "cut": False}
    if "c" in request:
        return _calls(behaviour.call, request["c"])
    named = {name: unpack(value) for name, value in request.get("k", {}).items()}
    return behaviour.call(*[unpack(value) for value in request["a"]], **named)


def _calls(make: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> list[Any]:
    subject = make(*[unpack(value) for value in calls[0][1:]])
    return [None] + [getattr(subject, name)(*[unpack(value) for value in rest]) for name, *rest in calls[1:]]


def _report(behaviour: Behaviour) -> bytes:
    report = behaviour.report
    body = (
        b"" if report is None else report if isinstance(report, bytes) else json.dumps(dict(report)).encode()
    )
    return _with_facts(body, behaviour.fault)


def _with_facts(body: bytes, fault: str | None) -> bytes:
    return (body + b"\n" if body else b"") + b"#" + encode({**_FACTS, "fault": fault}) + b"\n"
