"""The Linux calls that a sandbox is made of, through ctypes. x86-64 and aarch64.

Numbers and flags are from the kernel's own headers (``asm/unistd.h``, ``linux/sched.h``,
``linux/mount.h``, ``linux/prctl.h``).
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import struct
from typing import Any

__all__ = ["call", "clone_arguments", "libc", "mount", "numbers", "pivot_root"]

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_VM, CLONE_PIDFD, CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID = 0x100, 0x1000, 0x01000000, 0x00200000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS = 1, 4, 24, 38, 40
PR_SET_CHILD_SUBREAPER = 36
MNT_DETACH = 2

_X86: dict[str, Any] = {
    "arch": 0xC000003E,
    "clone": 56, "clone3": 435, "close_range": 436, "pivot_root": 155, "seccomp": 317, "capset": 126,
    "setgroups": 116, "setresuid": 117, "setresgid": 119, "prctl": 157, "prlimit64": 302,
    "socket": 41, "socketpair": 53,
    "deny": [
        101, 310, 311, 165, 166, 272, 308, 155, 161, 321, 250, 248, 249, 323, 298, 425, 426, 427, 246, 320,
        175, 313, 176, 304, 303, 300, 428, 429, 430, 431, 432, 433, 442, 438, 312, 135, 163, 167, 168, 169,
        227, 159, 305, 179, 103, 153, 172, 173, 447, 444, 445, 446,
    ],
    "shared": [29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241],
    "writable": [132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469],
    "owned": [90, 91, 268, 92, 93, 94, 260, 452, 141, 251, 279, 256, 440, 448],
    "own": [302, 203, 144, 142, 314],
}  # fmt: skip
_ARM: dict[str, Any] = {
    "arch": 0xC00000B7,
    "clone": 220, "clone3": 435, "close_range": 436, "pivot_root": 41, "seccomp": 277, "capset": 91,
    "setgroups": 159, "setresuid": 147, "setresgid": 149, "prctl": 167, "prlimit64": 261,
    "socket": 198, "socketpair": 199,
    "deny": [
        117, 270, 271, 40, 39, 97, 268, 41, 51, 280, 219, 217, 218, 282, 241, 425, 426, 427, 104, 294,
        105, 273, 106, 265, 264, 262, 428, 429, 430, 431, 432, 433, 442, 438, 272, 92, 89, 224, 225, 142,
        112, 171, 266, 60, 116, 58, 447, 444, 445, 446,
    ],
    "shared": [194, 195, 196, 190, 191, 192, 193, 186, 187, 188, 189, 180, 181],
    "writable": [88, 5, 6, 7, 14, 15, 16, 463, 466, 469],
    "owned": [52, 53, 54, 55, 452, 140, 30, 239, 238, 440, 448],
    "own": [261, 122, 119, 118, 274],
}  # fmt: skip
#: In the order of the tables: ptrace, process_vm_readv, process_vm_writev, mount, umount2, unshare,
#: setns, pivot_root, chroot, bpf, keyctl, add_key, request_key, userfaultfd, perf_event_open, io_uring
#: (3), kexec_load, kexec_file_load, init_module, finit_module, delete_module, open_by_handle_at,
#: name_to_handle_at, fanotify_init, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
#: mount_setattr, pidfd_getfd, kcmp, personality, acct, swapon, swapoff, reboot, clock_settime, adjtimex,
#: clock_adjtime, quotactl, syslog, vhangup, (x86: iopl, ioperm,) memfd_secret, landlock (3).
#: ``shared`` outlives a process where there is no ipc namespace: System V and POSIX queues and the like.
#: ``writable`` changes what Landlock knows no right for, of files that everybody may write: utime, setxattr,
#: removexattr and file_setattr in all their forms. ``owned`` reaches what the same user owns elsewhere: chmod
#: and chown in all their forms, setpriority, ioprio_set, move_pages, migrate_pages, process_madvise,
#: process_mrelease. ``own`` takes a process id: prlimit64, sched_setaffinity, sched_setscheduler,
#: sched_setparam, sched_setattr.
_TABLES = {"x86_64": _X86, "aarch64": _ARM}


numbers = _TABLES.get(platform.machine(), _X86)

libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def check(result: int, what: str) -> int:
    """``result`` of a libc call; a negative one raises the ``OSError`` of its errno."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def complaint(error: BaseException) -> bytes:
    """What is sent in place of the awaited message when a step failed: ``!``, its errno, its text."""
    number = getattr(error, "errno", None) or 0
    return b"!%d %s" % (number, ("%s: %s" % (type(error).__name__, error)).encode()[:4000])


def call(name: str, *arguments: Any) -> int:
    """A system call by name. Raises ``OSError``."""
    return check(libc.syscall(ctypes.c_long(numbers[name]), *arguments), name)


def prctl(option: int, value: int = 0) -> None:
    """``prctl(2)`` with one argument. Raises ``OSError``."""
    check(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), "prctl %d" % option)


def drop_bounding_set() -> None:
    """No program that this process or its children execute can gain a capability."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """``mount(2)`` on strings. Raises ``OSError`` that names the target."""
    text = [None if item is None else os.fsencode(item) for item in (source, target, kind, data)]
    check(libc.mount(text[0], text[1], text[2], flags, text[3]), "mount %s on %s" % (kind or "bind", target))


def bind(source: str, target: str) -> None:
    """Bind ``source`` (and all below it) on ``target``, read only, without setuid and devices.

    Flags that the source's own mount carries stay: a user namespace may not drop them.
    """
    mount(source, target, None, BIND | REC)
    for point in reversed(_mounts_below(target)):
        kept = os.statvfs(point).f_flag & (NODEV | NOSUID | NOEXEC)
        mount("none", point, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV | kept)


def _mounts_below(target: str) -> list[str]:
    target = os.path.realpath(target)
    with open("/proc/self/mountinfo", "rb") as table:
        points = [os.fsdecode(_ESCAPE.sub(_unescaped, line.split(b" ")[4])) for line in table]
    return [point for point in points if point == target or point.startswith(target + "/")]


_ESCAPE = re.compile(rb"\\([0-7]{3})")


def _unescaped(match: re.Match[bytes]) -> bytes:
    """Mountinfo writes spaces and the like in octal."""
    return bytes((int(match.group(1), 8),))


def pivot_root(new: str, old: str) -> None:
    """``pivot_root(2)``. Raises ``OSError``."""
    call("pivot_root", os.fsencode(new), os.fsencode(old))


def tid_address() -> ctypes.c_void_p | None:
    """Where libc caches this thread's id, to be set anew in a raw clone; ``None`` if unknown."""
    found = ctypes.c_void_p()
    if libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(found), 0, 0, 0) < 0:
        return None
    return found


def clone_arguments(flags: int) -> tuple[Any, ...]:
    """Ready arguments of ``libc.syscall`` for a fork-like ``clone(2)`` with ``flags``."""
    tid = tid_address()
    if tid is not None:
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    tail = (None, tid) if numbers is _ARM else (tid, None)
    return (ctypes.c_long(numbers["clone"]), ctypes.c_ulong(flags | 17), None, None) + tail


def rlimit(resource_number: int, soft: int, hard: int) -> tuple[Any, tuple[Any, ...]]:
    """A ready ``prlimit64`` call on the calling process."""
    value = ctypes.c_char_p(struct.pack("QQ", soft, hard))
    return (
        libc.syscall,
        (ctypes.c_long(numbers["prlimit64"]), ctypes.c_long(0), ctypes.c_long(resource_number), value, None),
    )
