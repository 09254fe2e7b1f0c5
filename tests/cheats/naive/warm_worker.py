"""One process, kept warm, judges answer after answer, with a folder that nobody empties."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def judge(path):
    import task

    names = {"__name__": "answer"}
    exec(compile(path.read_text(), path.name, "exec"), names)
    results = []
    for given, expected in task.CASES:
        value = names[task.ENTRY](given)
        results.append(type(value) is type(expected) and value == expected)
    return all(results)


def main():
    passed = False
    for path in sorted(Path().glob("answer[0-9].py")):
        passed = False
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Exception):
            passed = judge(path)
    print("PASSED" if passed else "FAILED", file=sys.__stdout__)


if __name__ == "__main__":
    main()
