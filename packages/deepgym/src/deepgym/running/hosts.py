"""Texts that go into a solution's sandbox: its host for a fresh interpreter, what runs an agent's work."""

from __future__ import annotations

import functools
from pathlib import Path

import deepgym.sandboxed as sandboxed

__all__ = ["fresh_interpreter", "replay"]

_BOOT = """
import sys,types
S=%r
p=types.ModuleType('deepgym');p.__path__=[];sys.modules['deepgym']=p
q=types.ModuleType('deepgym.sandboxed');q.__path__=[];sys.modules['deepgym.sandboxed']=q
for n,t in S:
    n='deepgym.sandboxed.'+n
    m=types.ModuleType(n);m.__package__='deepgym.sandboxed';sys.modules[n]=m
    exec(compile(t,'<host>','exec'),m.__dict__)
import random;random.seed(%d);m.alone(%r)
"""
#: In the order of their imports; the last one starts the run.
_HOST = ("wire", "values", "host", "program", "tree", "solution_host")


@functools.cache
def _texts() -> list[tuple[str, str]]:
    folder = Path(sandboxed.__path__[0])
    return [(name, (folder / f"{name}.py").read_text("utf-8")) for name in _HOST]


def fresh_interpreter(command: tuple[str, ...], seed: int, linked: bool) -> tuple[str, ...]:
    """The command line that runs the solution's host in the Python that ``command`` starts."""
    return (*command, "-s", "-S", "-B", "-c", _BOOT % (_texts(), seed, linked))


@functools.cache
def replay() -> bytes:
    """The program that stands for the answer where an agent's work runs again."""
    return (Path(sandboxed.__path__[0]) / "replay.py").read_bytes()
