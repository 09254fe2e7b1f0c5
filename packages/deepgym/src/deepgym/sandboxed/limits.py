"""How a run's child gives up what it has: descriptors, limits, privileges, system calls.

A ``Plan`` is the list of ready calls for one set of limits; a zygote keeps plans, so that a run costs no
preparation.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
from typing import Any, Tuple

from . import kernel
from .kernel import libc, numbers

__all__ = ["UID", "Plan", "flags", "make", "string", "system"]

UID = 1000
#: A function of libc and its arguments.
Call = Tuple[Any, Tuple[Any, ...]]


def string(text: str) -> ctypes.c_char_p:
    """Text as an argument of a ready call."""
    return ctypes.c_char_p(text.encode())


def flags(value: int) -> ctypes.c_ulong:
    """Flags as an argument of a ready call."""
    return ctypes.c_ulong(value)


def system(name: str, *arguments: Any) -> Call:
    """A ready system call."""
    return libc.syscall, (ctypes.c_long(numbers[name]), *arguments)


def make(calls: list[Call]) -> None:
    """Make ready calls, in order. Raises ``OSError`` at the first that fails."""
    for function, arguments in calls:
        if function(*arguments) < 0:
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (getattr(function, "__name__", "call"), os.strerror(number)))


class Plan:
    """Ready calls for one set of limits, of whatever tier. ``uid``: the run's own, if it has one."""

    def __init__(self, spec: dict[str, Any], uid: int | None) -> None:
        self.loopback = spec.get("loopback", False)
        self.argv: list[str] | None = spec.get("argv")
        self.head: dict[str, Any] | None = spec.get("head")
        self.apart: list[Call] = [
            (libc.setsid, ()),
            (libc.sigprocmask, (2, ctypes.create_string_buffer(128), None)),
        ]
        self.close = {first: system("close_range", first, ctypes.c_uint(0xFFFFFFFF), 0) for first in (4, 5)}
        self.bounds = _rlimits(spec)
        if uid is not None:
            self.bounds.append(bound(resource.RLIMIT_NPROC, spec["processes"]))
        self.identity: list[Call] = []
        if uid is not None:
            self.identity = [
                system("setgroups", ctypes.c_long(0), None),
                system("setresgid", uid, uid, uid),
                system("setresuid", uid, uid, uid),
            ]
        self.dumpable: list[Call] = [(libc.prctl, (kernel.PR_SET_DUMPABLE, flags(1), 0, 0, 0))]
        self.no_privileges: list[Call] = [(libc.prctl, (kernel.PR_SET_NO_NEW_PRIVS, flags(1), 0, 0, 0))]

    def enter(self, null: int, fds: tuple[int, ...]) -> None:
        """In the child: everything between the fork and the host. ``fds``: channel, out, err[, link].

        Raises:
            OSError: a step failed; nothing of the answer was read yet.
        """
        raise NotImplementedError

    def filtered(self, memory: Any) -> list[Call]:
        """The calls that load a system-call filter, after which some of the others can't be made."""
        return [system("seccomp", ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(memory))]

    def arrange(self, null: int, fds: tuple[int, ...]) -> None:
        """Leave no descriptor open but the run's own, at their places."""
        os.dup2(null, 0)
        os.dup2(fds[1], 1)
        os.dup2(fds[2], 2)
        os.dup2(fds[0], 3)
        if len(fds) > 3:
            os.dup2(fds[3], 4)
        make([self.close[5 if len(fds) > 3 else 4]])


def prefer_for_oom() -> None:
    """The kernel should end the policy's process first when memory runs out."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(fd, b"1000")
    os.close(fd)


def _rlimits(spec: dict[str, Any]) -> list[Call]:
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm") as statm:
        own = int(statm.read().split()[0]) * page
    cpu = max(1, math.ceil(spec["cpu"]))
    wanted = (
        (resource.RLIMIT_AS, spec["memory"] + own, 0),
        (resource.RLIMIT_CPU, cpu, 1),
        (resource.RLIMIT_FSIZE, spec["file_size"], 0),
        (resource.RLIMIT_NOFILE, spec["open_files"], 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
        (resource.RLIMIT_SIGPENDING, 1024, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
    )
    return [bound(number, value, slack) for number, value, slack in wanted]


def bound(number: int, value: int, slack: int = 0) -> Call:
    """A ready call that sets a limit, no higher than this process may."""
    _, hard = resource.getrlimit(number)
    top = value + slack if hard == resource.RLIM_INFINITY else min(value + slack, hard)
    return kernel.rlimit(number, min(value, top), top)
