"""Starts an agent's processes: as another user, without privileges, within the session's limits."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import struct
from typing import Any, Callable, NoReturn

from . import kernel, limits, seccomp
from .host import HOME, agents_environment
from .kernel import BIND, NODEV, NOSUID, libc, mount
from .limits import UID, Call, bound, make, string, system
from .namespaces import map_ids, mounted, raise_loopback
from .wire import WORK

__all__ = ["OUTPUT", "SCRIPT", "STATUS", "Agent", "make_places"]

#: Descriptors of a started process: a script to read, and a shell's own output and line to the host.
OUTPUT, SCRIPT, STATUS = 46, 47, 50
_NAMESPACE, _ERRORS = 48, 49
#: Seconds that the start of a process may take.
_STARTING = 10.0


class Agent:
    """Whom a session's commands run as."""

    def __init__(self, spec: dict[str, Any], privileged: bool) -> None:
        plan = limits.Plan(spec, None)
        processes = [bound(resource.RLIMIT_NPROC, spec["processes"])]
        self.apart, self.dumpable = plan.apart, plan.dumpable
        self.namespace = -1 if privileged else _namespace(plan.dumpable)
        if privileged:
            self.bounds = plan.bounds + processes
            self.identity: list[Call] = [
                system("setgroups", ctypes.c_long(0), None),
                system("setresgid", UID, UID, UID),
                system("setresuid", UID, UID, UID),
            ]
        else:
            # A namespace's owner is bound by the limit that he had when he made it, all of its users
            # together: the agent's own bound comes after it was entered.
            empty = ctypes.create_string_buffer(24)
            header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
            self.bounds = plan.bounds
            self.identity = [
                (libc.setns, (_NAMESPACE, kernel.NEWUSER)),
                system("capset", header, empty),
                *processes,
            ]
        # Limits of itself alone: the host, and a process that the host prepares, are out of its reach.
        filtered = plan.filtered(seccomp.program(sockets=True, selfish=True))
        self.last = plan.no_privileges + filtered
        self.environment = {**agents_environment(), "PS1": "", "PS2": "", "HISTFILE": ""}

    def give(self, pipe: int) -> None:
        """Make it the agent's, who can then open it by name (``/dev/stdout``)."""
        if self.namespace < 0:
            os.fchown(pipe, UID, UID)

    def start(
        self,
        argv: list[str],
        stdin: int,
        out: int,
        err: int | None = None,
        script: int | None = None,
        status: int | None = None,
    ) -> int:
        """Start a program: its pid. Raises ``OSError`` if the agent's processes leave no room for it, or if
        there is no such program.
        """

        def body() -> None:
            os.execvpe(argv[0], argv, self.environment)

        fds = {0: stdin, 1: out, 2: out, SCRIPT: script}
        if status is not None:
            fds.update({2: err, OUTPUT: out, STATUS: status})
        return self._fork(body, fds)

    def call(self, body: Callable[[], None], out: int) -> int:
        """Call a function in a process of its own: its pid."""

        def closed() -> None:
            os.close(_ERRORS)
            body()

        return self._fork(closed, {1: out})

    def _fork(self, body: Callable[[], None], fds: dict[int, int | None]) -> int:
        reading, writing = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                self._child(body, fds, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        try:
            # The agent's other processes may have stopped this one just before it was out of their reach.
            ready, _, _ = select.select([reading], [], [], _STARTING)
            failed = os.read(reading, 4096) if ready else b"%d it was stopped" % errno.EAGAIN
        finally:
            os.close(reading)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if failed:
            number, _, text = failed.decode("utf-8", "replace").partition(" ")
            raise OSError(int(number), text)
        return pid

    def _child(self, body: Callable[[], None], fds: dict[int, int | None], errors: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(errors, _ERRORS, inheritable=False)
            self._become(fds)
            body()
        except BaseException as error:
            try:
                text = "%d %s" % (getattr(error, "errno", None) or 0, error)
                os.write(_ERRORS, text.encode("utf-8", "replace")[:4000])
            except OSError:
                pass
        finally:
            os._exit(99)

    def _become(self, fds: dict[int, int | None]) -> None:
        make(self.apart)
        kept_open = [_ERRORS]
        if self.namespace >= 0:
            os.dup2(self.namespace, _NAMESPACE, inheritable=False)
            kept_open.append(_NAMESPACE)
        for target, source in fds.items():
            if source is not None:
                os.dup2(source, target)
                kept_open.append(target)
        low = 3
        for kept in sorted(kept_open):
            if kept > low:
                os.closerange(low, kept)
            low = max(low, kept + 1)
        os.closerange(low, 1024)
        # Before it is the agent's, whose processes could be in the way of whatever comes after, or read what
        # this process has from its parent.
        make(self.dumpable)
        limits.prefer_for_oom()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        make(self.bounds)
        make(self.identity)
        for place in (WORK, "/"):
            try:
                os.chdir(place)
                break
            except OSError:
                continue
        make(self.last)


def make_places(spec: dict[str, Any], privileged: bool) -> None:
    """The work directory, the home directory and ``/tmp``, on one bounded file system; and ``lo``."""
    disk = "size=%d,nr_inodes=%d,mode=755" % (spec["disk"], spec["files"])
    make([mounted("tmpfs", "/box", NOSUID | NODEV, string(disk))])
    os.umask(0)
    for path, mode in ((WORK, 0o755), (HOME, 0o755), ("/box/tmp", 0o1777)):
        os.mkdir(path, mode)
        if privileged and mode == 0o755:
            os.chown(path, UID, UID)
    os.umask(0o022)
    # A mount of its own: it can be emptied, but neither removed nor replaced.
    mount(WORK, WORK, None, BIND)
    raise_loopback()


def _namespace(dumpable: list[Call]) -> int:
    """A user namespace that owns nothing, for an ordinary user's agents; kept open by the descriptor."""
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go[1])
            make(dumpable)  # the id maps belong to a process that can be dumped
            kernel.check(libc.unshare(kernel.NEWUSER), "unshare user namespace")
            map_ids("self", "%d 0 1" % UID, "%d 0 1" % UID, True)
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        finally:
            os._exit(0)
    for fd in (ready[1], go[0]):
        os.close(fd)
    try:
        if os.read(ready[0], 1) != b"x":
            raise OSError(1, "an agent's user namespace can't be made")
        return os.open("/proc/%d/ns/user" % pid, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(go[1])
        os.close(ready[0])
        os.waitpid(pid, 0)
