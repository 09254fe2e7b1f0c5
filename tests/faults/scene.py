"""One attempt of one run that was chosen to be struck: what it has reached, and what can be broken there."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from .processes import PATIENCE, children, end_and_wait, end_zygote, gone, pid_of, stopped

__all__ = ["FaultContext", "Scene"]

_monotonic = time.monotonic

#: A fault: wraps what happens at its point, and calls ``scene.hit()`` when it really struck.
FaultContext = Callable[["Scene"], contextlib.AbstractContextManager[None]]


class Scene:
    """One attempt of one chosen run, and the objects that it has reached so far."""

    def __init__(
        self, fault: FaultContext, at: str, role: str | None, fresh: bool, on_hit: Callable[[], None]
    ) -> None:
        self.fault, self.at, self.role, self.fresh = fault, at, role, fresh
        self.on_hit = on_hit
        self.struck = False
        self.pool: Any = None
        self.slot: Any = None
        self.number = -1
        self.sandbox: Any = None
        self.process: Any = None
        self.jump = self.wall_jump = 0.0
        self.garble: Callable[[bytes, bool], bytes] | None = None
        self.switches: set[str] = set()
        self._undo: list[Callable[[], object]] = []

    def hit(self) -> None:
        """Say that the fault struck, once."""
        if not self.struck:
            self.struck = True
            self.on_hit()

    def later(self, action: Callable[[], object]) -> None:
        """Do ``action`` when the attempt is over."""
        self._undo.append(action)

    def finish(self) -> None:
        for action in reversed(self._undo):
            with contextlib.suppress(OSError):
                action()

    def renew(self) -> None:
        """Leave no slot behind that lacks something: its zygote ends, so that the next run gets another."""
        slot = self.pool.slots.get(self.number)
        if slot is not None:
            end_zygote(slot.solution)

    def zygote(self, role: str) -> Any:
        """The slot's zygote for ``role``."""
        return self.slot.solution if role == "solution" else self.slot.verifier

    def group(self, role: str) -> Any:
        return self.slot.group if role == "solution" else self.slot.verifier_group

    # What can be broken for real.

    def kill_zygote(self, role: str) -> bool:
        """SIGKILL, and wait until it is gone; in play only while the run's process lives."""
        zygote = None if self.slot is None else self.zygote(role)
        if zygote is None or not self._held(zygote, role):
            return False
        return end_zygote(zygote)

    def kill_manager(self) -> bool:
        """The same for the manager, whose zygotes go with it."""
        manager = self.pool.manager
        if manager is None or not manager.alive():
            return False
        if self.slot is not None and not self._held(self.slot.solution, "solution"):
            return False
        manager.process.kill()
        manager.process.wait()
        return self.slot is None or gone(self.slot.solution.pidfd)

    def _held(self, zygote: Any, role: str) -> bool:
        """In play: stop the run's process, so that it can't end by itself before the strike."""
        return self.at != "play" or self.stop_inside(role)

    def kill_inside(self, role: str, first: bool) -> bool:
        """SIGKILL the run's pid 1 (``first``) or its process; ``False`` if there is none any more."""
        if not self.stop_inside(role):
            return False
        pids = children(self.zygote(role))
        return len(pids) >= 2 and end_and_wait(pids[0] if first else pids[1], pids[1])

    def stop_inside(self, role: str) -> bool:
        """Stop the run's process; ``False`` if it is over. Waits for it to be there."""
        zygote = self.zygote(role)
        deadline = _monotonic() + PATIENCE
        while _monotonic() < deadline:
            inside = children(zygote)
            if len(inside) >= 2:
                return stopped(inside[1])
            if not zygote.idle():
                return False
            time.sleep(0.0005)
        return False

    def limit_processes(self, role: str) -> bool:
        """No process of the zygote's user may be cloned any more, until the attempt is over."""
        pid = pid_of(self.zygote(role))
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (0, hard))
        self.later(lambda: resource.prlimit(pid, resource.RLIMIT_NPROC, (soft, hard)))
        return True

    def fill_answers(self) -> Callable[[], None]:
        """Fill the file system that answers are written to; returns what empties it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink("solution", dir_fd=self.slot.verifier.answers)
        place = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.slot.verifier.answers)
        filler = os.open("filler", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=place)
        block = bytes(1 << 20)
        with contextlib.suppress(OSError):
            while os.write(filler, block):
                pass
        with contextlib.suppress(OSError):
            while os.write(filler, b"x"):
                pass
        os.close(filler)
        with contextlib.suppress(OSError):  # our own open isn't the verifier's
            os.read(self.slot.watch, 1 << 16)

        def empty() -> None:
            os.unlink("filler", dir_fd=place)
            os.close(place)

        return empty

    def starve(self, role: str) -> bool:
        """Bound the memory group of ``role`` a little above what it uses now; ``False`` without a group."""
        group = self.group(role)
        if group is None or not group.bounds_memory:
            return False
        folder, name = group._memory, group._memory_file
        used = "memory.current" if name == "memory.max" else "memory.usage_in_bytes"
        with open(f"{folder}/{used}") as source:
            now = int(source.read())
        with open(f"{folder}/{name}") as source:
            before = source.read().strip()
        with open(f"{folder}/{name}", "w") as target:
            target.write(str(now + (24 << 20)))

        def restore() -> None:
            with open(f"{folder}/{name}", "w") as target:
                target.write(before)

        self.later(restore)
        return True

    def hide_counter(self, role: str) -> bool:
        """The memory group's counter can't be read, until the attempt is over."""
        group = self.group(role)
        if group is None or not group.bounds_memory:
            return False
        kept, group._memory = group._memory, "/no/such/group"
        self.later(lambda: setattr(group, "_memory", kept))
        return True

    def swap_watch(self, data: bytes | None) -> None:
        """Put a descriptor in place of the watch that yields ``data``; ``None``: that fails when read."""
        kept = self.slot.watch
        if data is None:
            self.slot.watch = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        else:
            self.slot.watch, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(write, data)
            os.close(write)
        slot, mine = self.slot, self.slot.watch

        def back() -> None:
            if slot.watch == mine:
                os.close(mine)
                slot.watch = kept
            else:  # the slot was closed meanwhile, and with it ours
                os.close(kept)

        self.later(back)

    def forge_control(self, role: str, message: bytes) -> None:
        """The next message from the zygote is ``message``, whatever it sends."""
        zygote = self.zygote(role)
        inner = zygote.control
        zygote.control = _Forged(inner, message)
        self.later(lambda: setattr(zygote, "control", inner))


class _Forged:
    """A control socket whose next word isn't what was sent."""

    def __init__(self, inner: Any, message: bytes) -> None:
        self.inner, self._message = inner, message

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if flags & socket.MSG_PEEK:
            return self._message
        data: bytes = self.inner.recv(size, flags)
        return self._message if data else data
