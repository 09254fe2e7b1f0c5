"""Runs a command on a host that refuses namespaces and mounts, as a stock container does.

    python denied.py COMMAND [ARGUMENT ...]

A system-call filter stands in for the container's: the calls fail with EPERM, ``clone3`` with ENOSYS. With
``--without-landlock`` before the command, Landlock's calls fail with ENOSYS too, as on an older kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from deepgym.sandboxed import kernel

_DENIED = {
    "x86_64": {"clone": 56, "names": (165, 166, 272, 308, 155, 161, 428, 429, 430, 432)},
    "aarch64": {"clone": 220, "names": (40, 39, 97, 268, 41, 51, 428, 429, 430, 432)},
}
_LANDLOCK = (444, 445, 446)
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


def _filter(without_landlock: bool) -> list[tuple[int, int, int, int]]:
    table = _DENIED[os.uname().machine]
    code = [(_LOAD, 0, 0, 0), (_EQUAL, 0, 1, 435), (_RETURN, 0, 0, _ENOSYS)]
    for number in table["names"]:  # type: ignore[union-attr]
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    for number in _LANDLOCK if without_landlock else ():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ENOSYS)]
    code += [(_EQUAL, 0, 3, table["clone"]), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, 0x7E020080)]  # type: ignore[list-item]
    return [*code, (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]


def main(arguments: list[str]) -> None:
    """Load the filter, then become the command."""
    without_landlock = arguments[:1] == ["--without-landlock"]
    command = arguments[without_landlock:]
    code = b"".join(struct.pack("HBBI", *one) for one in _filter(without_landlock))
    memory = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(memory)))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.call("seccomp", ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(program))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
