"""A forked child judges and leaves its verdict in a file of the folder that the answer works in."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def judge():
    import task

    names = {"__name__": "answer"}
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
    results = [names[task.ENTRY](given) == expected for given, expected in task.CASES]
    Path("result.json").write_text(json.dumps({"passed": all(results)}))


def main():
    if os.fork() == 0:
        sys.stdout = sys.stderr
        judge()
        os._exit(0)
    os.wait()
    passed = json.loads(Path("result.json").read_text())["passed"] is True
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
