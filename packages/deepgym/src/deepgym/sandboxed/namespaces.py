"""The tier ``namespaces``: zygotes and runs in namespaces of their own.

Each zygote is pid 1 of its own user, pid, mount, network, ipc, uts and cgroup namespaces, in a root of its
own. Each run is

    a placeholder that is pid 1 of the run's pid namespace (killing it ends everything in the run)
    the child itself, in fresh mount, ipc and network namespaces, on a sized tmpfs, without privileges
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import signal
import socket
import struct
from typing import Any

from . import kernel, limits, root, seccomp
from .kernel import NODEV, NOEXEC, NOSUID, libc
from .limits import UID, Call, flags, make, string
from .proxy import ANSWER
from .warm import settle
from .zygote import Server, Serving, Setting, clone

__all__ = ["NamespacePlan", "NamespaceServer", "Namespaces", "map_ids", "mounted", "raise_loopback"]

_SIOCSIFFLAGS, _UP = 0x8914, 0x1
#: What a user namespace may have of what is counted for its owner too.
_COUNTED = {"max_inotify_instances": 2, "max_inotify_watches": 1024}
#: CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_MKNOD.
_NEEDED = 1 << 6 | 1 << 7 | 1 << 21 | 1 << 27


class Namespaces(Setting):
    """See ``Setting``. Everything that is mounted goes with the manager's mount namespace."""

    namespaces = kernel.NEWUSER | kernel.NEWPID | kernel.NEWNS | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
    namespaces |= kernel.NEWCGROUP

    def __init__(self) -> None:
        # Now, for in its new root a zygote no longer sees this package.
        from .session_host import SessionHost

        self.session = SessionHost
        self.privileged = os.geteuid() == 0 and _may_administer()

    def prepare(self, config: dict[str, Any]) -> None:
        """See the base class."""
        if self.privileged:
            kernel.check(kernel.libc.unshare(kernel.NEWNS), "unshare mount namespace")
        else:
            uid, gid = os.getuid(), os.getgid()
            kernel.check(kernel.libc.unshare(kernel.NEWUSER | kernel.NEWNS), "unshare user namespace")
            map_ids("self", "0 %d 1" % uid, "0 %d 1" % gid, True)
        root.build(config["prefix"], config["hidden"], self.privileged)

    def answers(self, slot: int) -> int:
        """See the base class."""
        return root.answers(slot)

    def settle_in(self, pid: int, request: dict[str, Any]) -> None:
        """Map its ids: a range of its own, or as an ordinary user the one that there is."""
        span, base = ("65536", request["uid"]) if self.privileged else ("1", 0)
        ids = "0 %d %s" % (base, span)
        map_ids(str(pid), ids, ids, not self.privileged)

    def enter(self, request: dict[str, Any]) -> str:
        """See the base class."""
        _keep_counts_apart()
        if self.privileged:
            os.setresgid(0, 0, 0)
            os.setgroups([])
            os.setresuid(0, 0, 0)
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        root.enter(request["slot"] if request["role"] == "verifier" else None)
        socket.sethostname("sandbox")
        return ANSWER

    def server(self, control: socket.socket, null: int, request: dict[str, Any]) -> Serving:
        """See the base class."""
        if request["role"] == "session":
            return self.session(control, null, self.privileged)
        return NamespaceServer(control, request["role"] == "verifier", null, self.privileged)


def _keep_counts_apart() -> None:
    """Bound what the kernel counts for the owner of this user namespace together with all his others."""
    for name, most in _COUNTED.items():
        try:
            with open("/proc/sys/user/" + name, "w") as limit:
                limit.write(str(most))
        except OSError:
            pass  # a container may show /proc/sys read-only


def _may_administer() -> bool:
    """Whether root may do here what takes no user namespace of its own; a container's may not, nor may the
    root of a user namespace, which makes no devices and has few user ids to give.
    """
    with open("/proc/self/status") as status:
        held = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))
    with open("/proc/self/uid_map") as table:
        ids = max(int(line.split()[2]) for line in table)
    return held & _NEEDED == _NEEDED and ids >= 1 << 31


def map_ids(process: str, uids: str, gids: str, deny_groups: bool) -> None:
    """Write the id maps of a process's new user namespace."""
    for name, text in (("setgroups", "deny" if deny_groups else None), ("uid_map", uids), ("gid_map", gids)):
        if text is not None:
            with open("/proc/%s/%s" % (process, name), "w") as target:
                target.write(text)


class NamespaceServer(Server):
    """Each child in namespaces of its own, behind a first process whose end is theirs too."""

    def __init__(self, control: socket.socket, verifier: bool, null: int, privileged: bool) -> None:
        super().__init__(control, verifier, null)
        self.privileged, self.first = privileged, 0
        self.pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        # Private: what a run writes there must reach neither its first process nor a later run.
        self.stack = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.top = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.stack)) + 65536 - 64)
        self.pause = ctypes.cast(kernel.libc.pause, ctypes.c_void_p)
        # A verifier is trusted code without sockets: it stays in its zygote's own empty network namespace.
        self.child = kernel.clone_arguments(kernel.NEWNS | kernel.NEWIPC | (0 if verifier else kernel.NEWNET))
        settle()

    def plan(self, spec: dict[str, Any]) -> NamespacePlan:
        """See the base class."""
        return NamespacePlan(spec, self.privileged)

    def start(self, plan: limits.Plan, fds: tuple[int, ...]) -> int:
        """See the base class."""
        kernel.check(kernel.libc.unshare(kernel.NEWPID), "unshare pid namespace")
        try:
            self.first = self._placeholder()
            pid = clone(self.child)
        except BaseException:
            self._come_back()
            raise
        if pid != 0:
            self._come_back()
        if pid < 0:
            self.clear()
        return pid

    def _come_back(self) -> None:
        kernel.check(kernel.libc.setns(self.pids, kernel.NEWPID), "setns back")

    def _placeholder(self) -> int:
        """The run's pid 1: sleeps in libc's ``pause`` on a stack of its own, every signal blocked."""
        pid = kernel.libc.clone(self.pause, self.top, ctypes.c_int(kernel.CLONE_VM | 17), None)
        return kernel.check(pid, "clone of the run's first process")

    def kill(self, pid: int) -> None:
        """See the base class."""
        os.kill(pid, signal.SIGKILL)
        os.kill(self.first, signal.SIGKILL)

    def clear(self) -> None:
        """See the base class."""
        os.kill(self.first, signal.SIGKILL)
        # It ends last of its namespace; whatever else of that is a child of this process must be waited for.
        while os.waitpid(-1, 0)[0] != self.first:
            pass


def mounted(kind: str, place: str, how: int, options: ctypes.c_char_p | None) -> Call:
    """A ready mount."""
    return libc.mount, (string(kind), string(place), string(kind), flags(how), options)


class NamespacePlan(limits.Plan):
    """Mounts of the run's own first, then the rest."""

    def __init__(self, spec: dict[str, Any], privileged: bool) -> None:
        super().__init__(spec, UID)
        self.privileged = privileged
        disk = "size=%d,nr_inodes=%d,mode=777" % (spec["disk"], spec["files"])
        self.places: list[Call] = [
            mounted("proc", "/proc", NOSUID | NODEV | NOEXEC, None),
            mounted("tmpfs", "/box", NOSUID | NODEV, string(disk)),
            (libc.chdir, (string("/box"),)),
            (libc.mkdir, (string("tmp"), 0o777)),
            (libc.chmod, (string("tmp"), 0o1777)),
            *self.apart,
        ]
        self.filter = seccomp.program(sockets=self.loopback)
        self.last = self.no_privileges + self.filtered(self.filter)
        self.empty = ctypes.create_string_buffer(24)
        self.header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))

    def enter(self, null: int, fds: tuple[int, ...]) -> None:
        """See the base class."""
        make(self.places)
        if self.loopback:
            raise_loopback()
        self.arrange(null, fds)
        make(self.bounds)
        if self.privileged:
            make(self.identity)
        else:
            self._enter_user_namespace()
        make(self.dumpable)
        limits.prefer_for_oom()
        make(self.last)

    def _enter_user_namespace(self) -> None:
        """An ordinary user's run: one more user namespace, which owns nothing, without capabilities."""
        make(self.dumpable)  # the id maps belong to a process that can be dumped
        kernel.check(libc.unshare(kernel.NEWUSER), "unshare user namespace")
        map_ids("self", "%d 0 1" % UID, "%d 0 1" % UID, True)
        kernel.call("capset", self.header, self.empty)


def raise_loopback() -> None:
    """Bring up the network namespace's own ``lo``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP))
