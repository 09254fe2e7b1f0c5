"""The very object that the answer was given is what its value is compared with afterwards, sorted."""

from __future__ import annotations

import sys
from pathlib import Path

SHAPE = "sorting"


def reward(run):
    return 1.0 if run.status == 0 else 0.0


def main():
    import task

    names = {"__name__": "answer"}
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
    for given in ([3, 1, 2], [9, 8], [5, 5, 4, 1]):
        got = names[task.ENTRY](given)
        if got != sorted(given):
            sys.exit(1)


if __name__ == "__main__":
    main()
