"""Runs a command, and ends with it all that it started: `keeper.py SECONDS REPORT COMMAND...`

REPORT gets, as JSON, the command's status (-1: it took too long) and the names of processes that outlived it by
half a minute. Whatever the command started becomes this process's child when its own parent ends, so that
nothing gets away, and there is no child when all is over.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

GRACE = 30
_DIES_WITH_PARENT, _ADOPTS = 1, 36


class Over(BaseException):
    """No more waiting."""


def main(seconds: int, report: Path, command: list[str]) -> None:
    _take_charge()
    status, left = -1, []
    try:
        first = subprocess.Popen(command).pid
        signal.alarm(seconds)
        status = _until(first)
        signal.alarm(GRACE)
        _until(None)
    except Over:
        left = _names()
    finally:
        signal.alarm(0)
        _end_all()
    report.write_text(json.dumps({"status": status, "left": left}), encoding="utf-8")


def _take_charge() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_ADOPTS, 1, 0, 0, 0)
    libc.prctl(_DIES_WITH_PARENT, signal.SIGTERM, 0, 0, 0)
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)


def _stop(number: int, frame: object) -> None:
    raise Over


def _until(first: int | None) -> int:
    """Wait for the child ``first``, or for every child; the status of the last."""
    status = 0
    while True:
        try:
            pid, waited = os.wait()
        except ChildProcessError:
            return status
        status = os.waitstatus_to_exitcode(waited)
        if pid == first:
            return status


def _children() -> list[int]:
    return [
        int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()
    ]


def _names() -> list[str]:
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in _children()]


def _end_all() -> None:
    """Kill the children, and theirs, which become ours."""
    while pids := _children():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        os.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
