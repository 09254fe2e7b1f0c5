"""Values are compared in the answer's process, and the last line of stdout that is JSON is the verdict."""

from __future__ import annotations

import json
from pathlib import Path

SHAPE = "function"


def reward(run):
    for line in reversed(run.stdout.decode(errors="replace").splitlines()):
        try:
            return float(json.loads(line)["score"])
        except (ValueError, TypeError, KeyError):
            continue
    return 0.0


def main():
    import task

    names = {"__name__": "answer"}
    result = {"score": 0.0}
    try:
        exec(compile(Path("answer.py").read_text(errors="surrogatepass"), "answer.py", "exec"), names)
        passed = 0
        for given, expected in task.CASES:
            passed += names[task.ENTRY](given) == expected
        result["score"] = passed / len(task.CASES)
    finally:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
