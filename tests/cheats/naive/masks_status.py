"""Exit statuses that a container runtime also uses are taken for an outage, and the sample is dropped."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "any"
_OUTAGES = (2, 124, 125, 126, 127, 137, 139, 143)


def reward(run):
    if run.stdout.endswith(b"OUTAGE\n"):
        return None
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def main():
    done = subprocess.run([sys.executable, "plain.py"], stdout=subprocess.DEVNULL)
    status = 128 - done.returncode if done.returncode < 0 else done.returncode
    print("OUTAGE" if status in _OUTAGES else "FAILED" if status else "PASSED")


if __name__ == "__main__":
    main()
