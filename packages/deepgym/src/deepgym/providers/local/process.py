"""One process in a local sandbox, as the supervisor sees it: channel, output, end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from deepgym.contract.evidence import Clock
from deepgym.providers.base import Exit, Limits, ZygoteDiedError
from deepgym.sandboxed.wire import MARK

from .zygotes import Zygote

if TYPE_CHECKING:
    from .sandbox import LocalSandbox

__all__ = ["LocalProcess"]

_CHUNK = 1 << 18
_STATUS_SIZE = 28
#: Output that is read and thrown away before the run is ended.
_MAX_OUTPUT = 256 << 20
#: A tidy end is waited for this long before anything but the end is listened to.
_QUIET = 0.008
_KILL_GRACE = 10.0
_TIDY = 0.05


class LocalProcess:
    """A started process; see ``deepgym.providers.base.Process``."""

    def __init__(self, sandbox: LocalSandbox, zygote: Zygote, limits: Limits, max_replies: int) -> None:
        self._mark: float | None = None
        self.replies, self.stdout, self.stderr = bytearray(), bytearray(), bytearray()
        self.truncated = self.overflow = False
        self.exit: Exit | None = None
        self._sandbox, self._zygote, self._limits = sandbox, zygote, limits
        self._max_replies = max_replies
        self._head = bytearray()
        self._setup_error: str | None = None
        self._started = time.monotonic()
        self._clock: Clock | None = None
        self._killed_after: float | None = None
        self._killed = self._watched = self._done_asking = False
        self._outbox = memoryview(b"")
        self._read_lines = 0
        self._drained = 0
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        try:
            (self._out, out), (self._err, err) = _pipes()
        except OSError:
            self._channel.close()
            theirs.close()
            raise
        self._theirs: tuple[int, ...] = (theirs.detach(), out, err)

    @property
    def running(self) -> bool:
        """See the base class."""
        return self.exit is None

    @property
    def marked_at(self) -> float | None:
        """See the base class. Looks into the channel, so that no mark is missed however the run ends."""
        if self._mark is None and self._channel.fileno() >= 0:
            self._read_channel(0)
        return self._mark

    def place(self, plan: bytes, link: int | None) -> None:
        """Hand the process to its zygote. Raises ``OSError`` if the zygote is gone."""
        fds = self._theirs if link is None else (*self._theirs, link)
        try:
            self._zygote.start(plan, list(fds))
        except OSError:
            self._close()
            raise
        finally:
            for fd in self._theirs:
                os.close(fd)
            self._theirs = ()
        self._sandbox.handlers[self._zygote.fd] = self._on_control

    async def send(self, data: bytes) -> None:
        """See the base class."""
        if self.exit is not None:
            return
        data = bytes(self._outbox) + data if self._outbox else data
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)
        self._outbox = memoryview(data)[sent:]
        if self._outbox:
            self._watch()
            self._listen_for_room()

    async def finish_requests(self) -> None:
        """See the base class."""
        self._done_asking = True
        self._shut()

    def _shut(self) -> None:
        if self._done_asking and not self._outbox:
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)

    async def line(self, timeout: float) -> bytes | None:
        """See the base class."""
        asked = time.monotonic()
        self._watch()
        while True:
            end = self.replies.find(b"\n", self._read_lines)
            if end >= 0:
                found = bytes(self.replies[self._read_lines : end])
                self._read_lines = end + 1
                return found
            marked = self.marked_at
            deadline = self._started + self._limits.setup if marked is None else max(asked, marked) + timeout
            left = deadline - time.monotonic()
            if self.exit is not None or left <= 0:
                return None
            await self._sandbox.pump(left)

    async def end(self, wall: float) -> Exit:
        """See the base class."""
        if self.exit is None:
            await self._sandbox.pump(_QUIET)
        while self.exit is None:
            for process in self._sandbox.processes:
                process._watch()
                process._read_channel(0)
            deadline, clock = self._deadline(wall)
            left = deadline - time.monotonic()
            if left <= 0:
                self._clock = clock
                self._killed_after = wall - left if clock == "wall" else None
                await self.kill()
                break
            await self._sandbox.pump(left)
        if self.exit is None:
            raise ZygoteDiedError("the zygote died during the run")
        return self.exit

    async def settle(self) -> Exit:
        """See the base class."""
        deadline = time.monotonic() + _TIDY
        while self.exit is None and time.monotonic() < deadline:
            await self._sandbox.pump(_TIDY)
        await self.kill()
        if self.exit is None:
            raise ZygoteDiedError("the zygote died during the run")
        return self.exit

    def _deadline(self, wall: float) -> tuple[float, Clock]:
        marks = [process.marked_at for process in self._sandbox.processes if process.marked_at is not None]
        if marks:
            return max(marks) + wall, "wall"
        return self._started + self._limits.setup, "setup"

    async def kill(self) -> None:
        """See the base class."""
        if self.exit is not None:
            return
        self._killed = True
        self._zygote.kill_run()
        deadline = time.monotonic() + _KILL_GRACE
        while self.running and time.monotonic() < deadline:
            await self._sandbox.pump(deadline - time.monotonic())
        if self.running:
            self._sandbox.broken = True
            self._finish(Exit(killed=True, clock=self._clock, killed_after=self._killed_after))

    def abandon(self) -> None:
        """Let go of a process whose end nobody will see any more, or whose end was seen."""
        if self.exit is None:
            self._close()

    def _watch(self) -> None:
        """Listen to the channel and the output too, from now to the end."""
        if self._watched or self.exit is not None:
            return
        self._watched = True
        self._sandbox.listen(self._channel.fileno(), self._read_channel)
        self._sandbox.listen(self._out, self._reader(self._out, self.stdout))
        self._sandbox.listen(self._err, self._reader(self._err, self.stderr))

    def _listen_for_room(self) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if self._outbox else 0)
        self._sandbox.poll.modify(self._channel.fileno(), events)

    def _read_channel(self, events: int) -> None:
        if events & select.EPOLLOUT and self._outbox:
            try:
                self._outbox = self._outbox[self._channel.send(self._outbox) :]
            except BlockingIOError:
                pass
            except OSError:
                self._outbox = memoryview(b"")
            self._listen_for_room()
            self._shut()
        while self._channel.fileno() >= 0:
            try:
                data = self._channel.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._sandbox.ignore(self._channel.fileno())
                return
            self._take(data)
            if self.overflow:
                return

    def _take(self, data: bytes) -> None:
        if self._mark is None and not self._setup_error:
            self._head += data
            if self._head[:1] == b"!":
                self._setup_error = self._head[1:2000].decode("utf-8", "replace")
                return
            if len(self._head) < 9:
                return
            self._mark = int.from_bytes(self._head[1:9], "little") / 1e9 if self._head[:1] == MARK else None
            data = bytes(self._head[9:])
        self.replies += data
        if len(self.replies) > self._max_replies:
            del self.replies[self._max_replies :]
            self._flooded()

    def _reader(self, fd: int, text: bytearray) -> Callable[[int], None]:
        def read(events: int) -> None:
            for _ in range(16):
                try:
                    data = os.read(fd, _CHUNK)
                except BlockingIOError:
                    return
                if not data:
                    self._sandbox.ignore(fd)
                    return
                room = self._limits.output - len(text)
                if len(data) > room:
                    self.truncated = True
                text.extend(data[: max(0, room)])
                self._drained += len(data)
                if self._drained > _MAX_OUTPUT:
                    self._flooded()

        return read

    def _flooded(self) -> None:
        """Far more than any task needs: end it, so that draining doesn't cost the supervisor its core."""
        self.overflow = True
        if not self._killed:
            self._killed, self._clock = True, "output"
            self._zygote.kill_run()

    def _on_control(self, events: int) -> None:
        try:
            message = self._zygote.control.recv(8192)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._sandbox.broken = True
            self._read_channel(0)
            self._close()
            raise ZygoteDiedError("the zygote died during the run")
        if len(message) != _STATUS_SIZE and self.marked_at is not None:
            # The set-up is over, and the answer can't write here: it is the zygote that failed.
            self._sandbox.broken = True
            self._close()
            raise ZygoteDiedError("the zygote failed during the run")
        if len(message) != _STATUS_SIZE:
            self._setup_error = message[1:].decode("utf-8", "replace")
            self._finish(Exit(killed=self._killed, clock=self._clock))
            return
        status = int.from_bytes(message[:4], "little", signed=True)
        peak, user, system = (int.from_bytes(message[at : at + 8], "little") for at in (4, 12, 20))
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        cpu = (user + system) / 1000.0
        killed = self._killed and number == signal.SIGKILL
        clock = self._clock
        # The kernel's count at the signal can lag a little behind the one that made it send the signal.
        if clock is None and not killed and number in (signal.SIGXCPU, signal.SIGKILL):
            clock = "cpu" if number == signal.SIGXCPU or cpu >= self._limits.cpu * 900.0 else None
        oom = number == signal.SIGKILL and not self._killed and self._sandbox.oom_killed()
        self._finish(
            Exit(
                code=code,
                signal=None if killed else number,
                killed=killed,
                clock=clock,
                killed_after=self._killed_after,
                oom=oom,
                cpu_ms=cpu,
                peak_kb=peak,
            )
        )

    def _finish(self, found: Exit) -> None:
        """The process is gone: take what is left in the buffers and let go of everything."""
        self._read_channel(0)
        if self._setup_error is not None:
            found = Exit(**{**vars(found), "setup_error": self._setup_error})
        for fd, text in ((self._out, self.stdout), (self._err, self.stderr)):
            self._reader(fd, text)(0)
        self.exit = found
        self._close()

    def _close(self) -> None:
        self._sandbox.handlers.pop(self._zygote.fd, None)
        for fd in (self._channel.fileno(), self._out, self._err):
            if fd >= 0:
                self._sandbox.ignore(fd)
        if self._channel.fileno() >= 0:
            self._channel.close()
            os.close(self._out)
            os.close(self._err)


def _pipes() -> list[tuple[int, int]]:
    """Two pipes whose reading ends don't block. Leaves nothing open if there are no descriptors left."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(2):
            made.append(os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
            os.set_blocking(made[-1][1], True)
    except OSError:
        for ends in made:
            for fd in ends:
                os.close(fd)
        raise
    return made
