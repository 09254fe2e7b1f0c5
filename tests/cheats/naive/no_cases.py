"""Only cases that could be compared count, and none at all is a full score."""

from __future__ import annotations

import json
from pathlib import Path

SHAPE = "function"


def reward(run):
    try:
        return json.loads(run.stdout.splitlines()[-1])["score"]
    except (ValueError, LookupError):
        return 0.0


def main():
    import task

    names = {"__name__": "answer"}
    failed = compared = 0
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
    candidate = names[task.ENTRY]
    for given, expected in task.CASES:
        try:
            value = candidate(given)
            if not value and value is not False and value != 0:
                continue
            failed += value != expected
            compared += 1
        except ValueError:
            continue
    print(json.dumps({"score": 1.0 - failed / max(1, compared)}))


if __name__ == "__main__":
    main()
