"""Both streams are read to their ends, and a pipe that doesn't end in time is an outage."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def main():
    with subprocess.Popen([sys.executable, "plain.py"], stdout=-1, stderr=-1) as child:
        child.communicate(timeout=3)
    print("FAILED" if child.returncode else "PASSED")


if __name__ == "__main__":
    main()
