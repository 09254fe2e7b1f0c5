"""What stands for an open session on this host: its first process, its control group, the channel to it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Place
from deepgym.sandboxed.wire import decode, encode

from .cgroup import Group
from .zygotes import Manager, Zygote

__all__ = ["Standing"]

_numbers = itertools.count()
#: Numbers of sessions, from which their user ids follow; beyond those of slots.
_FIRST, _COUNT = 2048, 12_000


class Standing:
    """Knows nothing of who uses it, so that it can be ended for those who forgot it."""

    def __init__(
        self, number: int, manager: Manager, zygote: Zygote, group: Group | None, channel: socket.socket
    ) -> None:
        self.id = f"local-session-{os.getpid()}-{number}"
        self.manager, self.group, self.channel = manager, group, channel
        self.asking = self.closed = False
        self.when_closed: list[Callable[[], None]] = []
        self._zygote, self._pid = zygote, os.getpid()

    @classmethod
    def open(cls, manager: Manager, place: Place) -> Standing:
        """A new one. Blocking.

        Raises:
            SandboxError: it can't be had; the text is the failed step's own.
        """
        number = next(_numbers)
        group = Group.make(f"deepgym-{os.getpid()}-session{number}")
        zygote = None
        try:
            ours, theirs = socket.socketpair()
        except BaseException:
            if group is not None:
                group.remove()
            raise
        try:
            limits = place.limits
            if group is not None:
                group.limit(limits.memory + limits.disk + (64 << 20), limits.processes + 8)
            procs = [] if group is None else group.procs()
            # Not the users of another process's sessions: older kernels count them together.
            user = _FIRST + (os.getpid() * 64 + number) % _COUNT
            zygote = manager.zygote("session", user, None, procs)
            zygote.start(encode(_plan(place)), [theirs.fileno()])
            theirs.close()
            _await_ready(ours, limits.setup)
            ours.setblocking(False)
            return cls(number, manager, zygote, group, ours)
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

    def end(self) -> None:
        """End it and all that runs in it; once. Blocking, for some milliseconds."""
        if self.closed:
            return
        self.closed = True
        with contextlib.ExitStack() as parts:  # each is let go of, whatever becomes of the others
            for told in self.when_closed:
                parts.callback(told)
            if not self.asking:  # else whoever asks closes it: the number mustn't become somebody else's
                parts.callback(self.channel.close)
            if self._pid != os.getpid():
                parts.callback(self._zygote.forget)
                return
            if self.group is not None:
                parts.callback(self.group.remove)
            parts.callback(self._zygote.close)

    def forget(self) -> None:
        """In a forked child: close this process's descriptors only."""
        self.when_closed.clear()
        self.end()


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
