"""The answer has a process of its own and its replies are compared strictly, but nothing keeps it there.

Expected values stand in the judge's arguments, environment, memory, folder and open files; same user, same
namespaces, same folder; the verdict is whatever ``verdict`` says in the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"VERDICT 1\n") else 0.0


def serve():
    names = {"__name__": "answer"}
    inner, outer = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
    while line := _line(inner):
        request = json.loads(line)
        reply = json.dumps(names[request["entry"]](request["given"]))
        os.write(outer, reply.encode() + b"\n")


def _line(fd):
    data = b""
    while not data.endswith(b"\n") and (byte := os.read(fd, 1)):
        data += byte
    return data


def judge():
    cases = json.loads(os.environ["EXPECTED"])
    entry = sys.argv[2]
    kept = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the answer runs
    kept.write(sys.argv[3].encode())
    kept.flush()
    os.set_inheritable(kept.fileno(), True)
    Path("verdict").write_text("0")
    child = subprocess.Popen([sys.executable, "harness.py", "serve"], stdin=-1, stdout=-1, close_fds=False)
    right = 0
    for given, expected in cases:
        child.stdin.write(json.dumps({"entry": entry, "given": given}).encode() + b"\n")
        child.stdin.flush()
        reply = json.loads(child.stdout.readline(4096))
        right += type(reply) is type(expected) and reply == expected
    if right == len(cases):
        Path("verdict").write_text("1")
    child.kill()


def main():
    import task

    expected = json.dumps(task.CASES)
    Path("expected.json").write_text(expected)
    command = [sys.executable, "harness.py", "judge", task.ENTRY, expected]
    subprocess.run(command, env={**os.environ, "EXPECTED": expected}, timeout=15)
    print("VERDICT", Path("verdict").read_text())


if __name__ == "__main__":
    {"serve": serve, "judge": judge}.get([*sys.argv, ""][1], main)()
