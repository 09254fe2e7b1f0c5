"""A session's sandbox on this host: namespaces of its own, whose first process does what is asked of it."""

from __future__ import annotations

import contextlib
import errno
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread

from deepgym.exceptions import SandboxDiedError, SandboxError, SupervisorError
from deepgym.providers.base import Act, Capabilities, Ran
from deepgym.sandboxed.wire import decode, encode, frame

from .standing import Standing

__all__ = ["LocalWorkspace"]

_CHUNK = 1 << 18
#: Seconds beyond an act's own for which the sandbox may be silent.
_PATIENCE = 30.0
_SLICE = 1.0
#: How often, and after how many seconds each, a dead sandbox's manager is looked at: it may have died first.
_LOOKS, _LOOK = 5, 0.01
Turn = Callable[[], contextlib.AbstractAsyncContextManager[None]]


class LocalWorkspace:
    """See ``deepgym.providers.base.Workspace``. ``turn``: what to be in while something runs.

    One that is forgotten ends.
    """

    def __init__(self, standing: Standing, capabilities: Capabilities, turn: Turn) -> None:
        self.id, self.capabilities = standing.id, capabilities
        self._standing, self._channel, self._turn = standing, standing.channel, turn
        self._over: SandboxDiedError | None = None
        self._interrupted = False
        self._patience = self._left = _PATIENCE
        weakref.finalize(self, standing.end)

    async def act(self, act: Act) -> Ran:
        """See the base class. Waits for a core of this host first; that isn't counted."""
        head = {"do": act.do, "t": act.seconds, "limit": act.output, "path": act.path, "env": act.env}
        with _ours():
            async with self._turn():
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
            async with self._turn():
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
        standing = self._standing
        if self._interrupted or standing.closed:
            raise SupervisorError(f"the sandbox {self.id} is closed, or a request to it was interrupted")
        standing.asking = self._interrupted = True
        self._patience = self._left = seconds
        try:
            yield
            self._interrupted = False
        finally:
            self._leave_channel()

    def _leave_channel(self) -> None:
        """Nothing is asked any more. Close the channel if the sandbox was closed meanwhile."""
        self._standing.asking = False
        if self._standing.closed:
            self._channel.close()

    async def _wait(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Wait a little. Silence is counted in slices, each of which is looked after: if this process stood
        still meanwhile, that isn't the sandbox's silence.
        """
        if self._left <= 0:
            self._over = SandboxDiedError(f"the sandbox {self.id} was silent for {self._patience:.0f} s")
            raise self._over
        slice_, heard = min(_SLICE, self._left), False
        try:
            with anyio.move_on_after(slice_):
                await ready(self._channel)
                heard = True
        except OSError as error:
            # An ordinary user's watches are counted together with the agents': look again without one.
            if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                raise
            slice_ = min(_LOOK, slice_)
            await anyio.sleep(slice_)
        self._left = self._patience if heard else self._left - slice_

    async def _lost(self) -> SandboxError:
        """The channel has ended: with the sandbox, unless it was closed here or its manager is gone."""
        for _ in range(_LOOKS):
            if self._standing.closed:
                return SupervisorError(f"the sandbox {self.id} was closed while it was in use")
            if not self._standing.manager.alive():
                return SupervisorError("the sandbox manager is gone, and every session with it")
            await anyio.sleep(_LOOK)
        self._over = SandboxDiedError(f"the sandbox {self.id} has ended")
        return self._over

    async def _send(self, head: dict[str, Any], data: bytes = b"") -> None:
        view = memoryview(frame(encode(head)) + frame(data))
        while view:
            try:
                view = view[self._channel.send(view) :]
                self._left = self._patience
            except BlockingIOError:
                await self._wait(anyio.wait_writable)
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
                await self._wait(anyio.wait_readable)
                continue
            except OSError:
                data = b""
            self._left = self._patience
            if not data:
                raise await self._lost()
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    async def close(self) -> None:
        """See the base class."""
        if not self._standing.closed:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._standing.end)


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    """What fails here besides the sandbox is this process."""
    try:
        yield
    except (SandboxDiedError, SupervisorError):
        raise
    except Exception as error:
        raise SupervisorError(f"{type(error).__name__}: {error}") from error
