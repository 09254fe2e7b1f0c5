"""How a run's child gives up what it has: mounts, descriptors, limits, privileges, system calls.

A ``Plan`` is the list of ready calls for one set of limits; a zygote keeps plans, so that a run costs no
preparation.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import resource
import socket
import struct
from typing import Any, Tuple

from . import kernel, seccomp
from .kernel import NODEV, NOEXEC, NOSUID, libc, numbers

__all__ = ["UID", "Plan"]

UID = 1000
_SIOCSIFFLAGS, _UP = 0x8914, 0x1
#: A function of libc and its arguments.
_Call = Tuple[Any, Tuple[Any, ...]]


def _string(text: str) -> ctypes.c_char_p:
    return ctypes.c_char_p(text.encode())


def _flags(value: int) -> ctypes.c_ulong:
    return ctypes.c_ulong(value)


def _mount(kind: str, place: str, flags: int, options: ctypes.c_char_p | None) -> _Call:
    return libc.mount, (_string(kind), _string(place), _string(kind), _flags(flags), options)


def _system(name: str, *arguments: Any) -> _Call:
    return libc.syscall, (ctypes.c_long(numbers[name]), *arguments)


class Plan:
    """Ready calls for one set of limits."""

    def __init__(self, spec: dict[str, Any], privileged: bool) -> None:
        self.privileged, self.loopback = privileged, spec.get("loopback", False)
        self.argv: list[str] | None = spec.get("argv")
        self.head: dict[str, Any] | None = spec.get("head")
        disk = "size=%d,nr_inodes=%d,mode=777" % (spec["disk"], spec["files"])
        self.places: list[_Call] = [
            _mount("proc", "/proc", NOSUID | NODEV | NOEXEC, None),
            _mount("tmpfs", "/box", NOSUID | NODEV, _string(disk)),
            (libc.chdir, (_string("/box"),)),
            (libc.mkdir, (_string("tmp"), 0o777)),
            (libc.chmod, (_string("tmp"), 0o1777)),
            (libc.setsid, ()),
            (libc.sigprocmask, (2, ctypes.create_string_buffer(128), None)),
        ]
        self.close = {first: _system("close_range", first, ctypes.c_uint(0xFFFFFFFF), 0) for first in (4, 5)}
        self.bounds = _rlimits(spec)
        self.filter = seccomp.program(sockets=self.loopback)
        self.empty = ctypes.create_string_buffer(24)
        self.header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
        self.identity = [
            _system("setgroups", ctypes.c_long(0), None),
            _system("setresgid", UID, UID, UID),
            _system("setresuid", UID, UID, UID),
        ]
        self.last: list[_Call] = [
            (libc.prctl, (kernel.PR_SET_DUMPABLE, _flags(1), 0, 0, 0)),
            (libc.prctl, (kernel.PR_SET_NO_NEW_PRIVS, _flags(1), 0, 0, 0)),
            _system("seccomp", ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(self.filter)),
        ]

    def enter(self, null: int, fds: tuple[int, ...]) -> None:
        """In the child: everything between the fork and the host. ``fds``: channel, out, err[, link]."""
        _make(self.places)
        if self.loopback:
            _raise_loopback()
        os.dup2(null, 0)
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        os.dup2(fds[0], 3)
        if len(fds) > 3:
            os.dup2(fds[3], 4)
        _make([self.close[5 if len(fds) > 3 else 4]])
        _make(self.bounds)
        if self.privileged:
            _make(self.identity)
        else:
            self._enter_user_namespace()
        _make(self.last[:1])
        _prefer_for_oom()
        _make(self.last[1:])

    def _enter_user_namespace(self) -> None:
        """An ordinary user's run: one more user namespace, which owns nothing, without capabilities."""
        _make(self.last[:1])  # the id maps belong to a process that can be dumped
        kernel.check(libc.unshare(kernel.NEWUSER), "unshare user namespace")
        own = b"%d 0 1" % UID
        for name, text in (("setgroups", b"deny"), ("uid_map", own), ("gid_map", own)):
            fd = os.open("/proc/self/" + name, os.O_WRONLY)
            os.write(fd, text)
            os.close(fd)
        kernel.call("capset", self.header, self.empty)


def _make(calls: list[_Call]) -> None:
    for function, arguments in calls:
        if function(*arguments) < 0:
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (getattr(function, "__name__", "call"), os.strerror(number)))


def _rlimits(spec: dict[str, Any]) -> list[_Call]:
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm") as statm:
        own = int(statm.read().split()[0]) * page
    cpu = max(1, math.ceil(spec["cpu"]))
    wanted = (
        (resource.RLIMIT_AS, spec["memory"] + own, 0),
        (resource.RLIMIT_CPU, cpu, 1),
        (resource.RLIMIT_FSIZE, spec["file_size"], 0),
        (resource.RLIMIT_NOFILE, spec["open_files"], 0),
        (resource.RLIMIT_NPROC, spec["processes"], 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
    )
    calls = []
    for number, value, slack in wanted:
        _, hard = resource.getrlimit(number)
        top = value + slack if hard == resource.RLIM_INFINITY else min(value + slack, hard)
        calls.append(kernel.rlimit(number, min(value, top), top))
    return calls


def _prefer_for_oom() -> None:
    """The kernel should end the policy's process first when memory runs out."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(fd, b"1000")
    os.close(fd)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP))
