"""Where faults get into an episode. Beside ``seams``, the only file here that knows inner names.

thread   a thread is about to be started, for a new sandbox
host     a sandbox is being made (in that thread); the manager stands
zygote   its first process is about to be cloned
plan     it is about to be told what it is for
ready    it was told, and is waited for
group    a control group is about to be made
turn     a slot is about to be taken for an act
write    one of the environment's files is about to be placed
script   the set-up is about to be run
act      something that the agent wants is about to be done
send     a request is about to be sent to the sandbox
wait     its answer is waited for
reply    a part of its answer is being read
view     what came of an act is being made into an observation
copy     the work directory is about to be copied
end      the sandbox is being ended (in a thread)
gone     its first process is about to be ended
judge    the copy is about to be judged
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio

from deepgym import AsyncDeepGym
from deepgym.providers.local import cgroup, provider, standing, workspace, zygotes
from deepgym.session import session

from .processes import PATIENCE, gone, pid_of, stopped

__all__ = [
    "POINTS",
    "at",
    "end_first",
    "has_groups",
    "impatient",
    "kill_manager",
    "left_open",
    "open_sessions",
    "pids_inside",
    "recording",
    "stop_first",
    "to_judge",
]

_Around = Callable[[], contextlib.AbstractContextManager[None]]


def _role(*arguments: Any) -> bool:
    return "session" in arguments


def _does(*kinds: str) -> Callable[..., bool]:
    return lambda self, act: act.do in kinds


def _on_channel(waited_for: Any) -> bool:
    return isinstance(waited_for, socket.socket)


def _always(*arguments: Any, **named: Any) -> bool:
    return True


#: Point: whose attribute is passed there, and which of its calls count.
POINTS: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "thread": (anyio.to_thread, "run_sync", _always),
    "host": (standing.Standing, "open", _always),
    "zygote": (zygotes.Manager, "zygote", _role),
    "plan": (zygotes.Zygote, "start", _always),
    "ready": (standing, "_await_ready", _always),
    "group": (cgroup.Group, "make", _always),
    "turn": (provider, "_acquire", _always),
    "write": (workspace.LocalWorkspace, "act", _does("write")),
    "script": (workspace.LocalWorkspace, "act", _does("script")),
    "act": (workspace.LocalWorkspace, "act", _always),
    "send": (workspace.LocalWorkspace, "_send", _always),
    "wait": (anyio, "wait_readable", _on_channel),
    "reply": (workspace.LocalWorkspace, "_exactly", _always),
    "view": (session, "observation", _always),
    "copy": (workspace.LocalWorkspace, "copy", _always),
    "end": (standing.Standing, "end", _always),
    "gone": (zygotes.Zygote, "close", _always),
    "judge": (session.AsyncSession, "_evidence", _always),
}


@contextlib.contextmanager
def at(point: str, around: _Around, times: int | None = None, skip: int = 0) -> Iterator[None]:
    """Put ``around`` around what happens at ``point``: each time, or the first ``times`` after ``skip``."""
    owner, name, counts = POINTS[point]
    original = inspect.getattr_static(owner, name)
    call = original.__func__ if isinstance(original, classmethod) else original
    passed = 0

    def chosen(*arguments: Any, **named: Any) -> bool:
        nonlocal passed
        if not counts(*arguments, **named):
            return False
        passed += 1
        return passed > skip and (times is None or passed <= skip + times)

    if inspect.iscoroutinefunction(call):

        async def passing(*arguments: Any, **named: Any) -> Any:
            with around() if chosen(*arguments, **named) else contextlib.nullcontext():
                return await call(*arguments, **named)
    else:

        def passing(*arguments: Any, **named: Any) -> Any:
            with around() if chosen(*arguments, **named) else contextlib.nullcontext():
                return call(*arguments, **named)

    setattr(owner, name, classmethod(passing) if isinstance(original, classmethod) else passing)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """The supervisor waits for an answer of a sandbox no longer than ``seconds``, in four looks."""
    original, slices = workspace.LocalWorkspace._answering, workspace._SLICE

    def answering(self: Any, wanted: float) -> Any:
        return original(self, min(wanted, seconds))

    workspace.LocalWorkspace._answering = answering  # type: ignore[method-assign]
    workspace._SLICE = seconds / 4
    try:
        yield
    finally:
        workspace._SLICE = slices
        workspace.LocalWorkspace._answering = original  # type: ignore[method-assign]


@functools.cache
def has_groups() -> bool:
    """Whether control groups can be made here."""
    made = cgroup.Group.make(f"deepgym-{os.getpid()}-probe")
    if made is not None:
        made.remove()
    return made is not None and made.bounds_memory


_newest: list[Any] = []


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Remember the first process of the session that is being opened."""
    original = zygotes.Manager.zygote

    def make(self: Any, role: str, *rest: Any) -> Any:
        found = original(self, role, *rest)
        if role == "session":
            _newest[:] = [found]
        return found

    zygotes.Manager.zygote = make  # type: ignore[method-assign]
    try:
        yield
    finally:
        zygotes.Manager.zygote = original  # type: ignore[method-assign]
        _newest.clear()


def _first(one: Any) -> Any:
    """The first process of a session; of the one that is being opened, if it has none."""
    if one is not None and one._workspace is not None:
        return one._workspace._standing._zygote
    return _newest[0] if _newest else None


def _pool(client: AsyncDeepGym) -> Any:
    return client.provider._open  # type: ignore[attr-defined]


def open_sessions(client: AsyncDeepGym) -> tuple[int, int, int]:
    """Sessions that are open, places in the room that are taken, slots in use."""
    opened = _pool(client)
    return (0, 0, 0) if opened is None else (len(opened.standing), opened.room.inside, opened.in_use)


async def left_open(client: AsyncDeepGym, expected: tuple[int, int, int] = (0, 0, 0)) -> tuple[int, int, int]:
    """What is open once nothing more is given back. Who can't be closed ends when it is forgotten, and a
    thread that did something for it may hold it for a moment longer.
    """
    deadline = time.monotonic() + PATIENCE
    while (left := open_sessions(client)) != expected and time.monotonic() < deadline:
        gc.collect()
        await anyio.sleep(0.005)
    return left


def end_first(one: Any) -> bool:
    """SIGKILL to the first process of a session, and wait until it is gone."""
    zygote = _first(one)
    try:
        signal.pidfd_send_signal(zygote.pidfd, signal.SIGKILL)
    except OSError:
        return False
    return gone(zygote.pidfd)


def stop_first(one: Any) -> bool:
    """SIGSTOP to the first process of a session."""
    return stopped(pid_of(_first(one)))


def kill_manager(client: AsyncDeepGym) -> bool:
    """SIGKILL to the manager, and wait until its sessions are gone with it."""
    opened = _pool(client)
    if opened is None or opened.manager is None or not opened.manager.alive():
        return False
    fds = [each._zygote.pidfd for each in list(opened.standing) if not each.closed]
    opened.manager.process.kill()
    opened.manager.process.wait()
    ended = select.poll()
    for fd in fds:
        ended.register(fd, select.POLLIN)
        assert ended.poll(int(PATIENCE * 1000))
        ended.unregister(fd)
    return True


def to_judge(client: AsyncDeepGym, env: Any, tree: bytes) -> Any:
    """A session whose agent left ``tree``, and which waits to be scored."""
    made = client.session(env)
    made._began, made._tree = time.monotonic(), tree
    made._end("submitted")
    return made


def pids_inside(client: AsyncDeepGym) -> list[int]:
    """Pids of the manager and of each session's first process."""
    opened = _pool(client)
    firsts = [pid_of(each._zygote) for each in list(opened.standing)]
    return [pid for pid in (opened.manager.process.pid, *firsts) if pid > 0]
