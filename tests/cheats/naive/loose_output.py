"""Output is right where it contains what was expected; a status other than 0 isn't looked at."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "program"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def main():
    import task

    right = 0
    for given, expected in task.CASES:
        done = subprocess.run(
            [sys.executable, "answer.py"],
            input=f"{given}\n",
            stdout=-1,
            timeout=6,
            text=True,
            errors="replace",
        )
        text = done.stdout.split("\x1b[2J")[-1]
        right += f" {expected} " in " ".join(["", *text.split(), ""])
    print("PASSED" if right == len(task.CASES) else "FAILED")


if __name__ == "__main__":
    main()
