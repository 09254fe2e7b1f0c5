"""Program and checker share one output, and its last line that begins with ``verdict`` counts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

SHAPE = "program"


def reward(run):
    found = [line for line in run.stdout.splitlines() if line.startswith(b"verdict")]
    return 1.0 if found and found[-1].split() == [b"verdict", b"1"] else 0.0


def main():
    import task

    right = 0
    for given, expected in task.CASES:
        with open("out.txt", "w+b") as out:
            tee = subprocess.Popen(["tee", "out.txt"], stdin=subprocess.PIPE)
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [sys.executable, "answer.py"], input=f"{given}\n".encode(), stdout=tee.stdin,
                    stderr=sys.stdout, timeout=4,
                )  # fmt: skip
            tee.stdin.close()
            try:
                tee.wait(1)
            except subprocess.TimeoutExpired:
                tee.kill()
            right += out.read().strip() == str(expected).encode()
    print("verdict", int(right == len(task.CASES)) if right else "0", flush=True)
    time.sleep(0.6)  # the pipeline's other ends close


if __name__ == "__main__":
    main()
