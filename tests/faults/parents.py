"""Looks at what is left of a process that was ended in the middle of a batch."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepgym import RunResult

from . import processes
from .injector import Injector
from .laws import Expected, Ledger, check_run
from .parent import SIGNALS, batch_of

__all__ = ["end_parents"]

_PATIENCE = 20.0
_TESTS = Path(__file__).parents[1]


def end_parents(ledger: Ledger, phase: str, ends: Sequence[str]) -> None:
    """Let a process end once for each of ``ends`` in ``phase``, and look at what it said and what it left."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "faults.parent", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_TESTS) as parent:
            assert parent.stdin is not None
            assert parent.stdout is not None
            for number, end in enumerate(ends):
                order = {"phase": phase, "end": end, "number": number}
                parent.stdin.write(json.dumps(order).encode() + b"\n")
                parent.stdin.flush()
                said = []
                while "status" not in (words := json.loads(parent.stdout.readline())):
                    said.append(words)
                _check(ledger, order, said, words, folder)
                if ledger.broken:  # each further one would be waited for as long
                    break
            parent.stdin.close()
        ledger.law(parent.returncode == 0, "the process that forks them is well", parent.returncode)


def _check(
    ledger: Ledger, order: dict[str, Any], said: list[Any], ended: dict[str, int], folder: str
) -> None:
    part = "cancellation" if order["end"] == "interrupt" else "parent"
    injector = Injector(None, ledger)  # type: ignore[arg-type]
    _, given = batch_of(injector, order, lambda: None)
    struck = [words["struck"] for words in said if "struck" in words]
    if struck:
        ledger.struck[f"{part} x {order['phase']}"] += 1
    signalled = order["end"] in ("kill", "term")
    right = (
        os.WTERMSIG(ended["status"]) == SIGNALS[order["end"]] if signalled else os.WIFEXITED(ended["status"])
    )
    ledger.law(right or not struck, "it ended by its signal", ended)
    results = [
        (words["index"], RunResult.model_validate_json(words["result"])) for words in said if "index" in words
    ]
    ledger.law(max(Counter(index for index, _ in results).values(), default=1) == 1, "each result comes once")
    outcomes = frozenset({"true", "none"} if order["end"] == "interrupt" else {"true"})
    for index, result in results:
        answer = given[index]
        check_run(ledger, index, Expected(answer.text.encode(), answer.score, outcomes), result)
    if order["end"] == "interrupt":
        ledger.law(len(results) == len(given), "an interrupted batch is whole", len(results))
    pids = [pid for one in struck for pid in one]
    ledger.law(_eventually(lambda: not any(map(_lives, pids))), "no process survives", pids)
    ledger.law(
        _eventually(lambda: not processes.groups_of(ended["pid"])), "no control group is left", ended["pid"]
    )
    ledger.law(_eventually(lambda: _free(folder)), "every slot is free")


def _eventually(condition: Any) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.002)
    return False


def _lives(pid: int) -> bool:
    """Whether a sandbox's process has this pid: not gone, not only waiting to be reaped, not another's by now."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            state = stat.read().rpartition(")")[2].split()[0]
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return state != "Z" and b"deepgym.sandboxed" in line.read()
    except OSError:
        return False


def _free(folder: str) -> bool:
    for path in Path(folder).glob("*.lock"):
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True
