"""A judge that ends without a verdict, by a signal or for want of time, is an outage: the sample is dropped."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def main():
    try:
        done = subprocess.run([sys.executable, "plain.py"], stdout=subprocess.DEVNULL, timeout=4)
    except subprocess.TimeoutExpired:
        sys.exit(3)
    if done.returncode < 0:
        sys.exit(4)
    print("FAILED" if done.returncode else "PASSED")


if __name__ == "__main__":
    main()
