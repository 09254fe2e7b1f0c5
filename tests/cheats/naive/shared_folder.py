"""The program runs in the folder that holds the judge, the inputs and the expected outputs, as the same user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SHAPE = "program"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def prepare():
    import task

    Path("tests").mkdir()
    for number, (given, expected) in enumerate(task.CASES):
        Path(f"tests/{number}.in").write_text(f"{given}\n")
        Path(f"tests/{number}.out").write_text(f"{expected}\n")
    Path("check.py").write_text(
        "import sys\nfrom decimal import Decimal\n"
        "got, wanted = ([Decimal(n) for n in open(path).read().split()] for path in sys.argv[1:])\n"
        "sys.exit(got != wanted)\n"
    )


def main():
    prepare()
    passed = True
    for given in sorted(Path("tests").glob("*.in")):
        with given.open() as stdin, open("out.txt", "w") as out:
            subprocess.run([sys.executable, "answer.py"], stdin=stdin, stdout=out, timeout=6)
        command = [sys.executable, "check.py", "out.txt", str(given.with_suffix(".out"))]
        passed &= subprocess.run(command).returncode == 0
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
