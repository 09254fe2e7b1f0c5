"""One slot in use: the place of one run, with its solution's and its verifier's process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import anyio

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Capabilities, Job, Spec, ZygoteDiedError
from deepgym.sandboxed.wire import encode, frame

from .cgroup import Group
from .process import LocalProcess
from .zygotes import Zygote

if TYPE_CHECKING:
    from .pool import Pool

__all__ = ["LocalSandbox", "Slot"]

_IN_OPEN, _IN_Q_OVERFLOW, _IN_ISDIR = 0x20, 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")
#: A head up to this size goes with the plan, which the zygote keeps decoded.
_SMALL = 4096


class Slot:
    """What a host slot keeps warm between runs: two zygotes, a group, an epoll, a watch."""

    def __init__(
        self, number: int, solution: Zygote, group: Group | None, capabilities: Capabilities
    ) -> None:
        self.number, self.solution, self.group = number, solution, group
        self.capabilities = capabilities
        self.verifier: Zygote | None = None
        self.verifier_group: Group | None = None
        self.watch = -1
        self.poll = select.epoll()
        try:
            self.poll.register(solution.fd, select.EPOLLIN)
        except BaseException:
            self.poll.close()
            raise

    def add_verifier(self, zygote: Zygote, group: Group | None) -> None:
        self.poll.register(zygote.fd, select.EPOLLIN)
        self.verifier, self.verifier_group = zygote, group
        self.watch = _watch(zygote.answers)

    def idle(self) -> bool:
        """Whether its zygotes are ready for a run."""
        return self.solution.idle() and (self.verifier is None or self.verifier.idle())

    def close(self) -> None:
        """End both zygotes and remove what they stood in."""
        for zygote in (self.solution, self.verifier):
            if zygote is not None:
                zygote.close()
        for group in (self.group, self.verifier_group):
            if group is not None:
                group.remove()
        self.forget()

    def forget(self) -> None:
        """Close this process's descriptors only."""
        for zygote in (self.solution, self.verifier):
            if zygote is not None:
                zygote.forget()
        self.poll.close()
        if self.watch >= 0:
            os.close(self.watch)
            self.watch = -1


def _watch(directory: int | None) -> int:
    """An inotify descriptor that sees opens in ``directory``; -1 if it can't be placed."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if fd >= 0 and libc.inotify_add_watch(fd, f"/proc/self/fd/{directory}".encode(), _IN_OPEN) < 0:
        os.close(fd)
        fd = -1
    return fd


def _texts(job: Job) -> bytes:
    """A job's texts, in the order in which its host reads them."""
    if job.tree is None:
        return frame(job.text)
    texts = (job.tree, job.text) if job.role == "solution" else (job.text, job.tree)
    return b"".join(map(frame, texts))


class LocalSandbox:
    """See ``deepgym.providers.base.Sandbox``."""

    def __init__(self, slot: Slot, spec: Spec, pool: Pool) -> None:
        self.id = f"local-{slot.number}"
        self.slot, self.spec, self.broken = slot, spec, False
        self.capabilities = slot.capabilities
        self.poll = slot.poll
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.processes: list[LocalProcess] = []
        self._pool = pool
        self._link: socket.socket | None = None
        self._has_answer = False
        self._opened: Literal["no", "watch", "watch_lost"] = "no"

    async def start(self, job: Job) -> LocalProcess:
        """See the base class."""
        zygote = self.slot.solution if job.role == "solution" else self.slot.verifier
        if zygote is None:
            raise SandboxError("this sandbox was opened without a verifier's place")
        try:
            link = self._link_for(job)
            try:
                if job.answer is not None:
                    self._place_answer(zygote, job.answer)
                process = LocalProcess(self, zygote, self.spec.limits, job.max_replies)
                plan, first = self._plan(job)
                process.place(plan, None if link is None else link.fileno())
            finally:
                if link is not None:
                    link.close()
            self.processes.append(process)
            await process.send(first + _texts(job) + job.requests)
        except OSError as error:
            self.broken = True
            raise SandboxError(f"a run can't be started: {error}") from error
        return process

    def _link_for(self, job: Job) -> socket.socket | None:
        if job.role == "verifier":
            link, self._link = self._link, None
            return link
        if not job.linked:
            return None
        self._link, theirs = socket.socketpair()
        return theirs

    def _plan(self, job: Job) -> tuple[bytes, bytes]:
        """What the zygote is told, the seed first; and the head's frame, if it is too large for that."""
        limits = self.spec.limits
        head = encode(job.head) if job.head else b"{}"
        small = len(head) < _SMALL and not job.argv
        plan: dict[str, Any] = {
            "memory": limits.memory,
            "cpu": limits.cpu,
            "processes": limits.processes,
            "open_files": limits.open_files,
            "file_size": limits.file_size,
            "disk": limits.disk,
            "files": limits.files,
        }
        if small:
            plan["head"] = job.head
        if job.loopback:
            plan["loopback"] = True
        if job.argv:
            plan["argv"] = list(job.argv)
        group = self.slot.group if job.role == "solution" else self.slot.verifier_group
        if group is not None:
            group.limit(limits.memory + limits.disk + (64 << 20), limits.processes + 8)
        first = b"" if small else frame(head)
        return job.seed.to_bytes(8, "little") + encode(plan), first

    def _place_answer(self, zygote: Zygote, answer: bytes) -> None:
        """Write the supervisor's copy where the verifier can open it, then forget who wrote it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink("solution", dir_fd=zygote.answers)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open("solution", flags, 0o444, dir_fd=zygote.answers)
        try:
            view = memoryview(answer)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
            self._read_watch()
            self._opened = "no" if self.slot.watch >= 0 else "watch_lost"
            self._has_answer = True

    def _read_watch(self) -> None:
        """Take what the watch saw since the last look."""
        if self.slot.watch < 0:
            return
        try:
            data = os.read(self.slot.watch, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at + _EVENT.size <= len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                self._opened = "watch_lost"
            elif not mask & _IN_ISDIR and self._opened == "no":
                self._opened = "watch"

    def opened_by_verifier(self) -> Literal["no", "watch", "watch_lost"]:
        """See the base class."""
        if self._has_answer:  # else all that the watch can hold is of a run before
            self._read_watch()
        return self._opened

    async def pump(self, timeout: float) -> None:
        """Wait until something happens in this sandbox, at most ``timeout`` seconds, and handle it."""
        events = self.poll.poll(0)
        if not events:
            with anyio.move_on_after(timeout):
                await anyio.wait_readable(self.poll)
            events = self.poll.poll(0)
        for fd, mask in events:
            handler = self.handlers.get(fd)
            if handler is not None:
                handler(mask)
            elif fd in (self.slot.solution.fd, self.slot.verifier and self.slot.verifier.fd):
                self.broken = True
                raise ZygoteDiedError("a zygote of the run died")

    def listen(self, fd: int, handler: Callable[[int], None]) -> None:
        """Call ``handler`` when ``fd`` can be read."""
        self.handlers[fd] = handler
        self.poll.register(fd, select.EPOLLIN)

    def ignore(self, fd: int) -> None:
        """Stop listening to ``fd``."""
        if self.handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self.poll.unregister(fd)

    def oom_killed(self) -> bool:
        """Whether the slot's memory counter moved."""
        return self.slot.group is not None and self.slot.group.oom_killed()

    async def close(self) -> None:
        """See the base class."""
        try:
            with anyio.CancelScope(shield=True):
                for process in self.processes:
                    if not self.broken:
                        with contextlib.suppress(ZygoteDiedError):
                            await process.kill()
        finally:
            try:
                self._let_go()
            finally:
                self._pool.release(self.slot.number)

    def _let_go(self) -> None:
        """Close what is this run's own. A slot that wasn't left clean isn't used again."""
        try:
            for process in self.processes:
                process.abandon()
            if self._link is not None:
                self._link.close()
        except BaseException:
            self.broken = True
            raise
        finally:
            if self.broken or not self._pool.keeps(self.slot):
                self._pool.discard(self.slot)
