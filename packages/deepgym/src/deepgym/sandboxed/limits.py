"""How a run's child gives up what it has: mounts, descriptors, limits, privileges, system calls.

A ``Plan`` is the list of ready calls for one set of limits; a zygote keeps plans, so that a run costs no
preparation.
"""

import ctypes
import fcntl
import math
import os
import resource
import socket
import struct

from . import kernel, seccomp
from .kernel import NODEV, NOEXEC, NOSUID, libc, numbers

__all__ = ["Plan", "UID"]

UID = 1000
_SIOCSIFFLAGS, _UP = 0x8914, 0x1


def _string(text):
    return ctypes.c_char_p(text.encode())


def _flags(value):
    return ctypes.c_ulong(value)


class Plan:
    """Ready calls for one set of limits."""

    def __init__(self, spec, privileged):
        self.privileged, self.argv, self.head = privileged, spec.get("argv"), spec.get("head")
        self.loopback = spec.get("loopback", False)
        disk = "size=%d,nr_inodes=%d,mode=777" % (spec["disk"], spec["files"])
        self.places = [
            (libc.mount, (_string("proc"), _string("/proc"), _string("proc"), _flags(NOSUID | NODEV | NOEXEC), None)),
            (libc.mount, (_string("tmpfs"), _string("/work"), _string("tmpfs"), _flags(NOSUID | NODEV), _string(disk))),
            (libc.chdir, (_string("/work"),)),
            (libc.mkdir, (_string("tmp"), 0o777)),
            (libc.chmod, (_string("tmp"), 0o1777)),
            (libc.setsid, ()),
            (libc.sigprocmask, (2, ctypes.create_string_buffer(128), None)),
        ]
        self.close = {
            first: (libc.syscall, (ctypes.c_long(numbers["close_range"]), first, ctypes.c_uint(0xFFFFFFFF), 0))
            for first in (4, 5)
        }
        self.bounds = _rlimits(spec)
        self.filter = seccomp.program(sockets=self.loopback)
        self.empty = ctypes.create_string_buffer(24)
        self.header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
        self.identity = [
            (libc.syscall, (ctypes.c_long(numbers["setgroups"]), ctypes.c_long(0), None)),
            (libc.syscall, (ctypes.c_long(numbers["setresgid"]), UID, UID, UID)),
            (libc.syscall, (ctypes.c_long(numbers["setresuid"]), UID, UID, UID)),
        ]
        self.last = [
            (libc.prctl, (kernel.PR_SET_DUMPABLE, _flags(1), 0, 0, 0)),
            (libc.prctl, (kernel.PR_SET_NO_NEW_PRIVS, _flags(1), 0, 0, 0)),
            (
                libc.syscall,
                (ctypes.c_long(numbers["seccomp"]), ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(self.filter)),
            ),
        ]

    def enter(self, null, fds):
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

    def _enter_user_namespace(self):
        """An ordinary user's run: one more user namespace, which owns nothing, without capabilities."""
        _make(self.last[:1])  # the id maps belong to a process that can be dumped
        kernel.check(libc.unshare(kernel.NEWUSER), "unshare user namespace")
        for name, text in (("setgroups", b"deny"), ("uid_map", b"%d 0 1" % UID), ("gid_map", b"%d 0 1" % UID)):
            fd = os.open("/proc/self/" + name, os.O_WRONLY)
            os.write(fd, text)
            os.close(fd)
        kernel.call("capset", self.header, self.empty)


def _make(calls):
    for function, arguments in calls:
        if function(*arguments) < 0:
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (getattr(function, "__name__", "call"), os.strerror(number)))


def _rlimits(spec):
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


def _prefer_for_oom():
    """The kernel should end the policy's process first when memory runs out."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(fd, b"1000")
    os.close(fd)


def _raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _UP))
