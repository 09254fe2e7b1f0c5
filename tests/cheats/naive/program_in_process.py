"""The program is executed in the judge's process, and the judge's exit status is the verdict."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

SHAPE = "program"


def reward(run):
    return 1.0 if run.status == 0 else 0.0


def main():
    import task

    for given, expected in task.CASES:
        sys.stdin, out = io.StringIO(f"{given}\n"), io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), {"__name__": "__main__"})
        assert out.getvalue().strip() == str(expected)


if __name__ == "__main__":
    main()
