"""Output or a result that can't be decoded, parsed or stored is an outage: the sample is dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def main():
    done = subprocess.run([sys.executable, "plain.py", "values.json"], stdout=-1, stderr=-1)
    record = {"out": done.stdout.decode(), "err": done.stderr.decode()}
    if os.path.exists("values.json"):
        with open("values.json", encoding="utf-8") as values:
            record["values"] = json.load(values)
    text = json.dumps(record, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > 1 << 20:
        raise ValueError("too long for the store")
    print("FAILED" if done.returncode else "PASSED")


if __name__ == "__main__":
    main()
