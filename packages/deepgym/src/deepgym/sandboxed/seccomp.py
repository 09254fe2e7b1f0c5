"""The system-call filter of a sandboxed process: a deny list, as a binary search in BPF.

Denied calls (x32 ones among them) fail with EPERM; ``clone3`` fails with ENOSYS, so that libc falls back to
``clone``, whose namespace flags can be looked at. Another architecture's calls (32-bit) kill the process.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from . import kernel

__all__ = ["program"]

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
#: Flags of clone(2): CLONE_NEW*, NEWTIME included, and CLONE_PARENT, whose child would be the zygote's.
_FORBIDDEN = 0x7E020000 | 0x80 | 0x8000

_LEAVES = {
    "allow": [(_RETURN, 0, 0, _ALLOW)],
    "deny": [(_RETURN, 0, 0, _EPERM)],
    "missing": [(_RETURN, 0, 0, _ENOSYS)],
    "clone": [(_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _FORBIDDEN)]
    + [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)],
    "self": [(_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)],
    "socket": [(_LOAD, 0, 0, 16)]
    + [(_EQUAL, 3 - at, 0, family) for at, family in enumerate((1, 2, 10))]  # AF_UNIX, AF_INET, AF_INET6
    + [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)],
}


def _ranges(sockets: bool, beside: str, selfish: bool) -> list[tuple[int, str]]:
    verdicts = {number: "deny" for number in kernel.numbers["deny"]}
    if beside:
        verdicts.update(
            (number, "deny") for name in ("shared", "writable") for number in kernel.numbers[name]
        )
    if beside == "own":
        verdicts.update((number, "deny") for number in kernel.numbers["owned"])
    if selfish or beside == "own":
        verdicts.update((number, "self") for number in kernel.numbers["own"])
    verdicts[kernel.numbers["socket"]] = "socket" if sockets else "deny"
    verdicts[kernel.numbers["clone"]] = "clone"
    verdicts[kernel.numbers["clone3"]] = "missing"
    found: list[tuple[int, str]] = []
    low = 0
    for number in sorted(verdicts):
        if number > low:
            found.append((low, "allow"))
        found.append((number, verdicts[number]))
        low = number + 1
    found.append((low, "allow"))
    return [item for at, item in enumerate(found) if at == 0 or item[1] != found[at - 1][1]]


def _search(ranges: list[tuple[int, str]]) -> list[tuple[int, int, int, int]]:
    if len(ranges) == 1:
        return _LEAVES[ranges[0][1]]
    middle = len(ranges) // 2
    low, high = _search(ranges[:middle]), _search(ranges[middle:])
    return [(_AT_LEAST, len(low), 0, ranges[middle][0])] + low + high


def instructions(
    sockets: bool = False, beside: str = "", selfish: bool = False
) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand).

    ``sockets`` allows ``socket(2)`` for local and IP sockets (others, AF_VSOCK say, aren't namespaced).
    ``beside`` is for a process without namespaces: it runs beside everybody else's (``other``), or as the
    very user that the supervisor is (``own``), and may then change nothing that this user owns.
    ``selfish`` lets a process set limits and scheduling of itself alone.
    """
    head = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, kernel.numbers["arch"]), (_RETURN, 0, 0, _KILL)]
    head += [(_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _EPERM)]
    return head + _search(_ranges(sockets, beside, selfish))


def program(sockets: bool = False, beside: str = "", selfish: bool = False) -> Any:
    """The filter as a ``sock_fprog`` for ``seccomp(2)``; it keeps its own memory alive."""
    code = b"".join(struct.pack("HBBI", *one) for one in instructions(sockets, beside, selfish))
    memory = ctypes.create_string_buffer(code)
    fields = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(memory))
    value: Any = ctypes.create_string_buffer(fields)
    value.memory = memory
    return value
