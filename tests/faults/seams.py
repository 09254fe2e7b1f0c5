"""Where faults get in. The only file here that knows the inner names of the provider and its processes.

Each run that was chosen has a ``Scene``, found through a context variable by whatever the run passes on its
way. At each point of that way the scene is asked for its fault; a run that wasn't chosen has no scene.

    ready    a slot was taken, its zygotes not yet looked at
    slot     a zygote was cloned, and is about to be taken into use (in a thread)
    spawn    a zygote is about to be cloned (in a thread)
    start    a process is about to be started                 (by role)
    send     a process was started, and waits for its text    (by role)
    play     the answer is in play, and the supervisor waits  (by role)
    said     the verifier's report is there, its end isn't
    finish   all that was asked is answered, the end isn't seen
    ended    the end was seen                                 (by role)
    again    a further process is about to be started, the run being in play
    close    the place is being given back                        (by role)
    closed   it was
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio

from deepgym.providers.local import cgroup, pool, process, sandbox, zygotes
from deepgym.running import run as running

from .processes import PATIENCE, end_zygote
from .scene import Scene

__all__ = ["installed"]

_monotonic, _wall = time.monotonic, time.time
_scene: contextvars.ContextVar[Scene | None] = contextvars.ContextVar("scene", default=None)


@contextlib.contextmanager
def installed(scene_for: Callable[[bytes], Scene | None]) -> Iterator[None]:
    """Let runs find their scenes: ``scene_for(text)`` gives the one of the next attempt at ``text``."""
    undo: list[Callable[[], None]] = []

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, make(original))

    for owner, name, make in _replacements(scene_for):
        replace(owner, name, make)
    try:
        yield
    finally:
        for action in reversed(undo):
            action()


def _replacements(scene_for: Callable[[bytes], Scene | None]) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    return [
        (running.Workshop, "run", lambda original: _workshop_run(original, scene_for)),
        (pool.Pool, "ready", _ready),
        (zygotes.Manager, "zygote", _zygote),
        (sandbox.Slot, "__init__", _slot),
        (sandbox.LocalSandbox, "start", _start),
        (sandbox.LocalSandbox, "close", _close),
        (process.LocalProcess, "send", _send),
        (process.LocalProcess, "end", _waiting),
        (process.LocalProcess, "line", _waiting),
        (process.LocalProcess, "abandon", _abandon),
        (process.LocalProcess, "finish_requests", _finish),
        (process.LocalProcess, "_take", _take),
        (process, "time", lambda original: _Time()),
        (running, "time", lambda original: _Time()),
        (time, "time", lambda original: _time_time),
        (sandbox, "_watch", _switched("no watch", lambda original, *rest: -1)),
        (
            cgroup.Group,
            "procs",
            _switched("no procs", lambda original, *rest: ["/no/such/group/cgroup.procs"]),
        ),
        (cgroup, "_places", _switched("no group", _unplaced)),
        (cgroup, "_write", _switched("no limit", lambda original, *rest: False)),
        (cgroup, "_remove", _switched("no removal", lambda original, *rest: None)),
    ]


@contextlib.contextmanager
def _at(point: str, role: str | None = None) -> Iterator[None]:
    scene = _scene.get()
    if scene is None or scene.struck or scene.at != point or scene.role not in (None, role):
        yield
        return
    with scene.fault(scene):
        yield


def _waits_at(point: str, role: str) -> Scene | None:
    scene = _scene.get()
    if scene is None or scene.struck or scene.at != point or scene.role not in (None, role):
        return None
    return scene


def _role(proc: Any) -> str:
    return "verifier" if proc._zygote is proc._sandbox.slot.verifier else "solution"


async def _until(condition: Callable[[], bool], proc: Any) -> bool:
    """Wait until ``condition`` holds; ``False`` if the process ends before."""
    deadline = _monotonic() + PATIENCE
    while _monotonic() < deadline:
        if condition():
            return True
        if proc.exit is not None or not proc._zygote.idle():
            return condition()
        await anyio.sleep(0.001)
    return False


class _Time:
    """The module ``time`` as a struck run sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def monotonic() -> float:
        scene = _scene.get()
        return _monotonic() + (scene.jump if scene is not None else 0.0)


def _time_time() -> float:
    scene = _scene.get()
    return _wall() + (scene.wall_jump if scene is not None else 0.0)


def _workshop_run(original: Any, scene_for: Callable[[bytes], Scene | None]) -> Any:
    async def run(self: Any, one: Any) -> None:
        scene = scene_for(one.text)
        token = _scene.set(scene)
        try:
            await original(self, one)
        finally:
            _scene.reset(token)
            if scene is not None:
                scene.finish()

    return run


def _ready(original: Any) -> Any:
    def look(self: Any, number: int, verifier: bool) -> Any:
        scene = _scene.get()
        if scene is not None:
            scene.pool, scene.number, scene.slot = self, number, self.slots.get(number)
            if scene.fresh and scene.slot is not None:
                end_zygote(scene.slot.solution)
        with _at("ready"):
            return original(self, number, verifier)

    return look


def _zygote(original: Any) -> Any:
    def make(self: Any, role: str, *rest: Any) -> Any:
        with _at("spawn", role):
            return original(self, role, *rest)

    return make


def _slot(original: Any) -> Any:
    def make(self: Any, *arguments: Any) -> None:
        with _at("slot"):
            original(self, *arguments)

    return make


def _start(original: Any) -> Any:
    async def begin(self: Any, job: Any) -> Any:
        scene = _scene.get()
        if scene is not None:
            scene.sandbox, scene.slot, scene.pool = self, self.slot, self._pool
        again = "again" if self.processes and job.role == "solution" else "start"
        with _at(again, job.role):
            return await original(self, job)

    return begin


def _send(original: Any) -> Any:
    async def deliver(self: Any, data: bytes) -> None:
        scene = _scene.get()
        if scene is not None and scene.process is not self:
            scene.process = self
            with _at("send", _role(self)):
                return await original(self, data)
        await original(self, data)

    return deliver


async def _strike(point: str, condition: Callable[[Any], bool], self: Any) -> None:
    scene = _waits_at(point, _role(self))
    if scene is not None and await _until(lambda: condition(self), self):
        with _at(point, _role(self)):
            pass


def _in_play(self: Any) -> bool:
    return self._sandbox.processes[0].marked_at is not None


def _said(self: Any) -> bool:
    self._read_channel(0)
    return b"\n" in self.replies


def _waiting(original: Any) -> Any:
    async def wait(self: Any, *rest: Any) -> Any:
        await _strike("play", _in_play, self)
        await _strike("said", _said, self)
        found = await original(self, *rest)
        if self.exit is not None:
            with _at("ended", _role(self)):
                pass
        return found

    return wait


def _finish(original: Any) -> Any:
    async def done(self: Any) -> None:
        with _at("finish", _role(self)):
            await original(self)

    return done


def _take(original: Any) -> Any:
    def accept(self: Any, data: bytes) -> None:
        scene = _scene.get()
        if scene is not None:
            before = self._mark is None
            if before and scene.jump and len(data) >= 9:
                moved = int.from_bytes(data[1:9], "little") + int(scene.jump * 1e9)
                data = data[:1] + max(0, moved).to_bytes(8, "little") + data[9:]
            if scene.garble is not None and scene.role in (None, _role(self)):
                data = scene.garble(data, before)
        original(self, data)

    return accept


def _abandon(original: Any) -> Any:
    def let_go(self: Any) -> None:
        with _at("close", _role(self)):
            original(self)

    return let_go


def _close(original: Any) -> Any:
    async def end(self: Any) -> None:
        await original(self)
        with _at("closed"):
            pass

    return end


def _switched(name: str, instead: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            scene = _scene.get()
            if scene is not None and name in scene.switches:
                scene.hit()
                return instead(original, *arguments)
            return original(*arguments)

        return call

    return make


def _unplaced(original: Any, *arguments: Any) -> list[tuple[str, str]]:
    return [(kind, f"{place}/no/such/group") for kind, place in original(*arguments)]
