"""Replies come as frames on descriptor 3, and a channel that makes no sense is an outage."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

SHAPE = "function"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def serve():
    import task

    names = {"__name__": "answer"}
    values = []
    try:
        exec(compile(Path("answer.py").read_text(encoding="utf-8"), "answer.py", "exec"), names)
        values += [names[task.ENTRY](given) for given, _ in task.CASES]
    finally:
        data = json.dumps(values).encode()
        os.write(3, len(data).to_bytes(4, "little") + data)


def _frame(channel):
    size = int.from_bytes(os.read(channel, 4), "little")
    if not 0 < size < 1 << 20 or not select.select([channel], [], [], 3)[0]:
        raise ConnectionError("a broken frame")
    return json.loads(os.read(channel, size))


def main():
    import task

    ours, theirs = os.pipe()
    start = "import os, sys; os.dup2(int(sys.argv[1]), 3); import harness; harness.serve()"
    command = [sys.executable, "-c", start, str(theirs)]
    with subprocess.Popen(command, pass_fds=[theirs], stdout=subprocess.DEVNULL) as child:
        os.close(theirs)
        try:
            values = _frame(ours)
        finally:
            child.kill()
    print("PASSED" if values == [expected for _, expected in task.CASES] else "FAILED")


if __name__ == "__main__":
    main()
