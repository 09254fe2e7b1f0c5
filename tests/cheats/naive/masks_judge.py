"""The judge has a process of its own above the answer's; where the judge is lost, so is the sample."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def judge():
    status = subprocess.run([sys.executable, "plain.py"], stdout=subprocess.DEVNULL).returncode
    # A descriptor for each thing that is kept: what was run, and how it ended.
    for name in ("answer.py", "task.py"):
        with open(name, "rb") as kept:
            kept.read()
    print("FAILED" if status else "PASSED")


def main():
    command = [sys.executable, "harness.py", "judge"]
    judged = subprocess.run(command, stdout=-1, timeout=4, check=True, start_new_session=True)
    print(judged.stdout.decode().strip())


if __name__ == "__main__":
    judge() if sys.argv[1:] else main()
