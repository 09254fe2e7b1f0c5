"""Pays for lazy initialisation once, in the manager, before anything is forked."""

from __future__ import annotations

import ctypes
import gc
import marshal
import socket
import sys

from . import solution_host, verifier_host
from .proxy import Solution
from .wire import frame

__all__ = ["settle", "warm"]

_PRELOAD = (
    "bisect", "collections", "copy", "dataclasses", "enum", "functools", "heapq", "io", "itertools", "json",
    "linecache", "math", "operator", "random", "re", "string", "time", "traceback", "types", "typing",
)  # fmt: skip
#: Enough that the interpreter has specialised the code that every run executes.
_ROUNDS = 40
_SOLUTION = b'''
from typing import Dict, List
import math
class Point:
    def __init__(self, x: int = 1) -> None:
        self.x = x
def f(items: List[int], top):
    """Touches what most short programs touch."""
    best = [0] * 4; seen: Dict[int, str] = {}; text = ""
    for i in range(1, 4):
        for item in items:
            if item <= i and best[i - item] + 1 > best[i]:
                best[i] = min(best[i - item] + 1, 9) if item % 2 else -1
    while len(seen) < 3:
        seen[len(seen)] = "%d" % len(text); text += "x"
    try:
        order = sorted((k for k in seen), key=lambda k: -k)
        top + 1
    except (TypeError, ValueError) as error:
        order = [str(error)]
    return (best, seen, order, f"{text}", math.sqrt(4.0), Point().x, {1, 2}, True, None)
'''
_REQUESTS = b'{"id":1,"a":[[1,2],3]}\n{"id":2,"a":[[],{"!t":[1]}]}\n'
_VERIFIER = """
from deepgym_verify import SolutionError

def verify(solution):
    f = solution.function("f")
    assert f([1, 2], "x") == [1, 2], "never"
"""


def warm() -> None:
    """Load what most runs import and rehearse a run of either host, then forget both."""
    for name in _PRELOAD:
        __import__(name)
    keep = dict(sys.modules)
    _warm_verifier()
    _warm_solution()
    for name in set(sys.modules) - set(keep):
        del sys.modules[name]
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepgym"]:
        del sys.modules[name]
    sys.argv[:] = [""]
    sys.path[:] = [entry for entry in sys.path if entry]
    settle()


def _warm_solution() -> None:
    for _ in range(_ROUNDS):
        left, right = socket.socketpair()
        left.send(frame(_SOLUTION) + _REQUESTS)
        left.shutdown(socket.SHUT_WR)
        solution_host.answer(right.fileno(), right.fileno(), {"entry": "f"}, False)
        left.close()
        right.close()


def _warm_verifier() -> None:
    """A whole verifier's run against canned replies, as often."""
    code = marshal.dumps(compile(_VERIFIER, "verify.py", "exec"))
    left, right = socket.socketpair()
    for _ in range(_ROUNDS):
        solution = Solution(left.fileno())
        right.send(b'{"id":1,"v":[1,2]}\n')
        verifier_host.verify(code, solution, verifier_host.Reporter(left.fileno()), 0)
        right.recv(65536)
    left.close()
    right.close()


def settle() -> None:
    """Leave no half-used memory behind: a child then allocates on fresh pages instead of copying shared ones.

    Uses up the free blocks of partly used pools (16 KiB with a 48-byte header in CPython 3.10 to 3.13;
    elsewhere this only wastes a little memory).
    """
    gc.collect()
    gc.freeze()
    allocate, free = ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free
    allocate.restype, allocate.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_size_t]
    for size in range(512, 15, -16):
        for _ in range(4000):
            block = allocate(size)
            if block & 0x3FFF == 48:
                free(block)
                break
