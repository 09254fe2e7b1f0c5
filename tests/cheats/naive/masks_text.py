"""Words that a client library also uses are looked for in the output, and the sample is dropped."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "any"
_OUTAGES = (
    "connection reset", "connection refused", "broken pipe", "timed out", "temporarily unavailable",
    "no space left", "out of memory", "memoryerror", "oom", "sandbox", "503", "429", "too many open files",
    "internal server error", "evicted", "expired", "unreachable", "filenotfounderror", "oserror",
)  # fmt: skip


def reward(run):
    if run.stdout.endswith(b"OUTAGE\n"):
        return None
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def main():
    done = subprocess.run([sys.executable, "plain.py"], stdout=-1, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace").lower()
    found = any(words in text for words in _OUTAGES)
    print("PASSED" if done.returncode == 0 else "OUTAGE" if found else "FAILED")


if __name__ == "__main__":
    main()
