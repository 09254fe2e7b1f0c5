"""Landlock: what a process without namespaces may touch of the file system, and whom it may signal.

Rights, flags and versions are from ``linux/landlock.h``. A ruleset handles all rights that the kernel
knows: what no rule allows is refused.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from typing import Iterable

from . import kernel

__all__ = ["BOX", "LIST", "READ", "USE", "restrict", "ruleset", "version"]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _MAKE_CHAR, _MAKE_BLOCK = 1, 2, 4, 8, 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
#: Rights that a file can have; a directory can have all.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
#: Rights known by version 1, and what later ones added.
_RIGHTS = (1 << 13) - 1
_ADDED = {2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEV}
_TCP, _SCOPES = 3, 3  # bind and connect (version 4); abstract sockets and signals (version 6)

#: Names of what is below a directory; reading and executing; a device's use; a run's own directory.
LIST = _READ_DIR
READ = _EXECUTE | _READ_FILE | _READ_DIR
USE = _READ_FILE | _WRITE_FILE
BOX = (1 << 16) - 1 & ~(_MAKE_CHAR | _MAKE_BLOCK)


def version() -> int:
    """The version of Landlock that this kernel speaks; 0 if none."""
    known: int = kernel.libc.syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, known)


# Numbers on every machine.
_CREATE, _ADD, _RESTRICT = 444, 445, 446


def _handled(known: int) -> int:
    return _RIGHTS | sum(right for since, right in _ADDED.items() if known >= since)


def ruleset(known: int, rules: Iterable[tuple[int, int]]) -> int:
    """A new ruleset's descriptor. ``rules``: an ``O_PATH`` descriptor and the rights on it and below.

    Raises:
        OSError: the kernel has no Landlock, or refuses a rule.
    """
    handled = _handled(known)
    fields = [handled, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0]
    size = 8 if known < 4 else 16 if known < 6 else 24
    made = kernel.libc.syscall(
        ctypes.c_long(_CREATE), struct.pack("QQQ", *fields), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    kernel.check(made, "landlock_create_ruleset")
    for place, rights in rules:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights & handled, place)
        added = kernel.libc.syscall(
            ctypes.c_long(_ADD), ctypes.c_long(made), ctypes.c_long(1), rule, ctypes.c_uint(0)
        )
        kernel.check(added, "landlock_add_rule")
    return int(made)


def restrict(made: int) -> None:
    """Put the calling thread, and all that it starts, under a ruleset for good. Raises ``OSError``."""
    result = kernel.libc.syscall(ctypes.c_long(_RESTRICT), ctypes.c_long(made), ctypes.c_uint(0))
    kernel.check(result, "landlock_restrict_self")
