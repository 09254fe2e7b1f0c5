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
#: How often, and after how many seconds each, a dead sandbox's manager is looked at: it may have died first.
_LOOKS, _LOOK = 5, 0.01


class LocalWorkspace:
    """See ``deepgym.providers.base.Workspace``. Made by ``open_workspace``."""

    def __init__(
        self,
        manager: Manager,
        zygote: Zygote,
        group: Group | None,
        channel: socket.socket,
        tier: Capabilities,
    ) -> None:
        self.id = f"local-session-{os.getpid()}-{next(_numbers)}"
        self.capabilities = tier
        self.turn: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext
        self.when_closed: Callable[[], None] = lambda: None
        self._manager, self._zygote, self._group, self._channel = manager, zygote, group, channel
        self._pid = os.getpid()
        self._asking = self._closed = False
        self._over: SandboxDiedError | None = None

    async def act(self, act: Act) -> Ran:
        """See the base class. Waits for a core of this host first; that isn't counted."""
        head = {"do": act.do, "t": act.seconds, "limit": act.output, "path": act.path, "env": act.env}
        with _ours():
            async with self.turn():
                said, output = await self._ask(head, act.data, act.seconds + _PATIENCE)
        if said.get("ours"):
            raise SupervisorError(f"the sandbox {self.id} couldn't start a process: {said.get('error')}")
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
        if self._over is not None:
            raise self._over
        if self._asking or self._closed:
            raise SupervisorError(f"the sandbox {self.id} is closed, or a request to it was interrupted")
        self._asking = True
        try:
            with anyio.move_on_after(seconds) as scope:
                yield
                self._asking = False
            if scope.cancelled_caught:
                self._over = SandboxDiedError(f"the sandbox {self.id} gave no answer for {seconds:.0f} s")
                raise self._over
        finally:
            self._leave_channel()

    def _leave_channel(self) -> None:
        """Close the channel if the sandbox was closed meanwhile, and so couldn't."""
        if self._closed:
            self._channel.close()

    async def _lost(self) -> SandboxError:
        """The channel has ended: with the sandbox, unless it was closed here or its manager is gone."""
        for _ in range(_LOOKS):
            if self._closed:
                return SupervisorError(f"the sandbox {self.id} was closed while it was in use")
            if not self._manager.alive():
                return SupervisorError("the sandbox manager is gone, and every session with it")
            await anyio.sleep(_LOOK)
        self._over = SandboxDiedError(f"the sandbox {self.id} has ended")
        return self._over

    async def _send(self, head: dict[str, Any], data: bytes = b"") -> None:
        view = memoryview(frame(encode(head)) + frame(data))
        while view:
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._channel)
            except OSError:
                raise await self._lost() from None

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
                raise await self._lost()
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
            if self._pid == os.getpid():
                self._zygote.close()
                if self._group is not None:
                    self._group.remove()
            else:
                self._zygote.forget()
            if not self._asking:  # else whoever asks closes it: the number mustn't become somebody else's
                self._channel.close()
        finally:
            self.when_closed()


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """What fails here besides the sandbox is this process."""
    try:
        yield
    except (SandboxDiedError, SupervisorError):
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
        return LocalWorkspace(manager, zygote, group, ours, capabilities(group))
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
