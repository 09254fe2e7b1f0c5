"""An attack: what an answer tries, and how it is told that it worked.

It is the body of a function that returns ``True`` if it got what it wanted, and runs as an answer like any
other. What it aims at is bait: a file and a process of this user that stand there for nothing else.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

__all__ = ["LIMITS", "Attack"]

#: Bounds of the environments that attacks run in.
LIMITS = {
    "wall": 20.0,
    "memory": 128 << 20,
    "file_size": 8 << 20,
    "disk": 16 << 20,
    "files": 256,
    "processes": 16,
}


@dataclass(frozen=True)
class Attack:
    """``name`` goes on from "an answer"; ``wall`` is what would have to be enforced to stop it."""

    name: str
    wall: str
    body: str
    together: bool = False
    """Whether a bound of each process or file alone doesn't stop it, only one of the run as a whole."""

    def answer(self, **bait: object) -> str:
        """The answer that tries it. ``bait``: constants that the body may use."""
        constants = "".join(f"{name} = {value!r}\n" for name, value in bait.items())
        return f"{_HELPERS}{constants}def attempt():\n{textwrap.indent(textwrap.dedent(self.body), '    ')}"


_HELPERS = """
import ctypes, mmap, os, resource, select, signal, socket, struct, time

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"

def works(*actions):
    for action in actions:
        try:
            if action() is not False:
                return True
        except (OSError, MemoryError, ValueError):
            pass
    return False

def read(path):
    with open(path, "rb") as source:
        return len(source.read(64)) > 0

def write(path, mode="w"):
    with open(path, mode) as target:
        target.write("x")

def call(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) >= 0

def iovec(address, size):
    return struct.pack("QQ", address, size)

def opens(family, kind, number=0):
    socket.socket(family, kind, number).close()

"""
