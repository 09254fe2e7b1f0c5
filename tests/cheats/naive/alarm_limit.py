"""Time is kept inside the answer's process: an alarm, and a clock read before and after."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

SHAPE = "function"
LIMIT = 1.0


def reward(run):
    lines = run.stdout.decode(errors="replace").splitlines()
    return 1.0 if lines and lines[-1] == json.dumps({"correct": True, "in_time": True}) else 0.0


class Late(Exception):
    """The alarm went off."""


def late(number, frame):
    raise Late


def main():
    import task

    names = {"__name__": "answer"}
    result = {"correct": False, "in_time": False}
    try:
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        began = time.perf_counter()
        exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
        result["correct"] = all(names[task.ENTRY](given) == wanted for given, wanted in task.CASES)
        result["in_time"] = time.perf_counter() - began < LIMIT
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
