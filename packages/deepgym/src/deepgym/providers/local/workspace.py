"""A session's sandbox on this host: namespaces of its own, whose first process does what is asked of it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread

from deepgym.exceptions import SandboxDiedError, SandboxError, SupervisorError
from deepgym.providers.base import Act, Capabilities, Place, Ran
from deepgym.sandboxed.wire import decode, encode, frame

from .cgroup import Group
from .zygotes import Manager, Zygote

__all__ = ["LocalWorkspace", "open_workspace"]

_numbers = itertools.count()
#: Numbers of sessions, from which their user ids follow; beyond those of slots.
_FIRST, _COUNT = 2048, 12_000
_CHUNK = 1 << 18
#: Seconds beyond an act's own that the sandbox may take to answer.
_PATIENCE = 30.0


class LocalWorkspace:
    """See ``deepgym.providers.base.Workspace``. Made by ``open_workspace``."""

    def __init__(
        self, zygote: Zygote, group: Group | None, channel: socket.socket, tier: Capabilities
    ) -> None:
        self.id = f"local-session-{os.getpid()}-{next(_numbers)}"
        self.capabilities = tier
        self.turn: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext
        self.when_closed: Callable[[], None] = lambda: None
        self._zygote, self._group, self._channel = zygote, group, channel
        self._pid = os.getpid()
        self._broken = self._closed = False

    async def act(self, act: Act) -> Ran:
        """See the base class. Waits for a core of this host first; that isn't counted."""
        head = {"do": act.do, "t": act.seconds, "limit": act.output, "path": act.path, "env": act.env}
        with _ours():
            async with self.turn():
                said, output = await self._ask(head, act.data, act.seconds + _PATIENCE)
        return Ran(
            output=output,
            code=said.get("exit"),
            timed_out=bool(said.get("timed_out")),
            cut=bool(said.get("cut")),
            note=str(said.get("note") or ""),
            error=str(said.get("error") or ""),
            seconds=float(said.get("seconds", 0.0)),
        )

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        """See the base class."""
        with _ours():
            async with self.turn():
                return await self._tree({"do": "copy", "last": last, "room": room, "files": files})

    async def _tree(self, request: dict[str, Any]) -> bytes:
        parts = []
        with self._answering(_PATIENCE):
            await self._send(request)
            while True:
                entry = await self._frame()
                said = decode(entry)
                parts.append(frame(entry))
                if said[1] == "e":
                    break
                if said[1] == "f":
                    parts.append(await self._exactly(said[3]))
        return b"".join(parts)

    async def _ask(self, head: dict[str, Any], data: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        with self._answering(seconds):
            await self._send(head, data)
            said: dict[str, Any] = decode(await self._frame())
            return said, await self._frame()

    @contextlib.contextmanager
    def _answering(self, seconds: float) -> Iterator[None]:
        """Between a request and its answer. Whatever interrupts that, nothing more can be asked."""
        if self._broken or self._closed:
            raise SandboxDiedError(f"the sandbox {self.id} has ended")
        self._broken = True
        with anyio.move_on_after(seconds) as scope:
            yield
            self._broken = False
        if scope.cancelled_caught:
            raise SandboxDiedError(f"the sandbox {self.id} gave no answer for {seconds:.0f} s")

    async def _send(self, head: dict[str, Any], data: bytes = b"") -> None:
        view = memoryview(frame(encode(head)) + frame(data))
        while view:
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._channel)
            except OSError:
                raise SandboxDiedError(f"the sandbox {self.id} has ended") from None

    async def _frame(self) -> bytes:
        return await self._exactly(int.from_bytes(await self._exactly(4), "little"))

    async def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            try:
                data = self._channel.recv(min(size, _CHUNK))
            except BlockingIOError:
                await anyio.wait_readable(self._channel)
                continue
            except OSError:
                data = b""
            if not data:
                raise SandboxDiedError(f"the sandbox {self.id} has ended")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    async def close(self) -> None:
        """See the base class."""
        if not self._closed:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.end)

    def end(self) -> None:
        """``close``, blocking."""
        if self._closed:
            return
        self._closed = True
        try:
            self._channel.close()
            if self._pid == os.getpid():
                self._zygote.close()
                if self._group is not None:
                    self._group.remove()
            else:
                self._zygote.forget()
        finally:
            self.when_closed()


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """What fails here besides the sandbox is this process."""
    try:
        yield
    except SandboxDiedError:
        raise
    except Exception as error:
        raise SupervisorError(f"{type(error).__name__}: {error}") from error


def open_workspace(
    manager: Manager, place: Place, capabilities: Callable[[Group | None], Capabilities]
) -> LocalWorkspace:
    """A new sandbox. Blocking.

    Raises:
        SandboxError: it can't be had; the text is the failed step's own.
    """
    number = next(_numbers)
    group = Group.make(f"deepgym-{os.getpid()}-session{number}")
    zygote = None
    ours, theirs = socket.socketpair()
    try:
        limits = place.limits
        if group is not None:
            group.limit(limits.memory + limits.disk + (64 << 20), limits.processes + 8)
        procs = [] if group is None else group.procs()
        zygote = manager.zygote("session", _FIRST + number % _COUNT, None, procs)
        zygote.start(encode(_plan(place)), [theirs.fileno()])
        theirs.close()
        _await_ready(ours, limits.setup)
        ours.setblocking(False)
        return LocalWorkspace(zygote, group, ours, capabilities(group))
    except BaseException as error:
        ours.close()
        theirs.close()
        if zygote is not None:
            zygote.close()
        if group is not None:
            group.remove()
        if isinstance(error, OSError):
            raise SandboxError(f"a session's sandbox can't be started: {error}") from error
        raise


def _plan(place: Place) -> dict[str, Any]:
    names = ("memory", "cpu", "processes", "open_files", "file_size", "disk", "files", "output")
    return {**{name: getattr(place.limits, name) for name in names}, "requires": list(place.requires)}


def _await_ready(channel: socket.socket, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    data = b""
    while len(data) < 4 or len(data) < 8 + int.from_bytes(data[:4], "little"):
        channel.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            more = channel.recv(65536)
        except TimeoutError:
            raise SandboxError(f"a session's sandbox wasn't ready within {seconds:.0f} s") from None
        if not more:
            raise SandboxError("a session's sandbox ended before it was ready")
        data += more
    said = decode(data[4 : 4 + int.from_bytes(data[:4], "little")])
    if "error" in said:
        raise SandboxError(f"a session's sandbox can't be set up: {said['error']}")
