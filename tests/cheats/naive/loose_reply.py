"""The answer's process prints a JSON reply a case, and the judge reads JSON as Python's parser gives it.

Cases are fixed, asked once, in order; True is 1, NaN passes a tolerance, a later duplicate key wins, and a
reply that came before its question counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def serve():
    names = {"__name__": "answer"}
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
    for line in sys.stdin:
        request = json.loads(line)
        print('{"value": ' + json.dumps(names[request["entry"]](request["given"])) + "}", flush=True)


def main():
    import task

    child = subprocess.Popen(
        [sys.executable, "harness.py", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wrong = 0
    try:
        for given, expected in task.CASES:
            child.stdin.write(json.dumps({"entry": task.ENTRY, "given": given}) + "\n")
            child.stdin.flush()
            value = json.loads(child.stdout.readline())["value"]
            if isinstance(value, (int, float)):
                wrong += abs(value - expected) > 1e-6
            else:
                wrong += value != expected
    finally:
        child.kill()
        print("FAILED" if wrong or sys.exc_info()[0] else "PASSED")


if __name__ == "__main__":
    serve() if sys.argv[1:] else main()
