"""Slots of this host: how many runs go on at once, over all processes of a user.

A slot is a lock file under ``/tmp/deepgym-<uid>``; holding its ``flock`` is holding the slot. The kernel
frees it when the holder ends, however it ends. Eight reward workers on one host so share its cores
instead of turning good answers into time-outs.
"""

from __future__ import annotations

import os
import stat
import tempfile

from deepgym.exceptions import SandboxError

try:
    import fcntl
except ImportError:  # Windows: the local provider refuses before it gets here
    fcntl = None  # type: ignore[assignment]

__all__ = ["HostSlots", "cores"]


def cores() -> list[int]:
    """Cores that this process may use; at least one."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0)) or [0]
    return list(range(os.cpu_count() or 1))


class HostSlots:
    """The host's slots, seen from this process. Not inherited by a fork (see ``forget``)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._files: dict[int | str, int] = {}
        self._waiting = 0
        self._held: set[int] = set()

    def acquire(self) -> int | None:
        """A free slot's number, or ``None`` if all are taken just now.

        Raises:
            SandboxError: the lock directory can't be used.
        """
        for number in range(self.count):
            if number in self._held:
                continue
            try:
                fcntl.flock(self._file(number), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            self._held.add(number)
            return number
        return None

    def holds(self, number: int) -> bool:
        """Whether this process has the slot just now."""
        return number in self._held

    def begin_waiting(self) -> None:
        """Let every process of this user know that somebody waits for a slot."""
        self._waiting += 1
        if self._waiting == 1:
            fcntl.flock(self._file("wait"), fcntl.LOCK_SH)

    def end_waiting(self) -> None:
        """Take ``begin_waiting`` back."""
        self._waiting -= 1
        if self._waiting == 0:
            fcntl.flock(self._file("wait"), fcntl.LOCK_UN)

    def somebody_waits(self) -> bool:
        """Whether a newcomer should let others go first."""
        try:
            fcntl.flock(self._file("look"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._file("look"), fcntl.LOCK_UN)
        return False

    def release(self, number: int) -> None:
        """Give a slot back; one that went with its lock file, when all was forgotten, needs nothing."""
        self._held.discard(number)
        if (fd := self._files.get(number)) is not None:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def forget(self) -> None:
        """Close the lock files without unlocking for whoever else shares them."""
        files = list(self._files.values())
        self._files.clear()
        for fd in files:
            os.close(fd)
        self._held.clear()
        self._waiting = 0

    def _file(self, number: int | str) -> int:
        fd = self._files.get(number)
        if fd is None:
            name = f"slot-{number}.lock" if isinstance(number, int) else "waiting.lock"
            path = os.path.join(_directory(), name)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._files[number] = fd
        return fd


def _directory() -> str:
    """This user's lock directory; made if missing, refused if it is somebody else's."""
    base = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
    path = os.path.join(base, f"deepgym-{os.getuid()}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        raise SandboxError(
            f"can't make the slot directory {path}: {error}. Free the path or make /tmp writable."
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SandboxError(f"{path} belongs to somebody else, so slots can't be shared safely. Remove it.")
    return path
