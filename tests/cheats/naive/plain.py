"""What the masking harnesses run: answer and comparison in one process, exit status 1 for a wrong answer.

Fair but for that; what the masking ones do wrong is how they read its end.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

SHAPE = None


def called(task, code):
    names = {"__name__": "answer"}
    exec(code, names)
    return [names[task.ENTRY](given) for given, _ in task.CASES]


def printed(task, code):
    values = []
    for given, _ in task.CASES:
        sys.stdin, out = io.StringIO(f"{given}\n"), io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {"__name__": "__main__"})
        values.append(out.getvalue())
        sys.__stdout__.write(out.getvalue())
    return values


def main():
    import task

    code = compile(Path("answer.py").read_text(encoding="utf-8"), "answer.py", "exec")
    values = called(task, code) if task.SHAPE == "function" else printed(task, code)
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(json.dumps(values), encoding="utf-8")
    wanted = [expected if task.SHAPE == "function" else f"{expected}\n" for _, expected in task.CASES]
    sys.exit(0 if values == wanted else 1)


if __name__ == "__main__":
    main()
