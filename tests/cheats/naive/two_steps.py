"""The answer is first imported to see that it loads, then tested by a second process in the same folder."""

from __future__ import annotations

import subprocess
import sys

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def main():
    import task

    # As its own program, with the folder first on the path and the environment handed on.
    lines = ["import json, statistics, unittest, task", f"from answer import {task.ENTRY} as candidate"]
    lines += [
        f"assert json.loads(json.dumps(candidate({given}))) == {wanted}" for given, wanted in task.CASES
    ]
    lines += ["assert statistics.mean([1, 3]) == 2"]
    with open("run_tests.py", "w") as test:
        test.write("\n".join(lines))
    subprocess.run([sys.executable, "-c", "import answer"], timeout=15)
    status = subprocess.run([sys.executable, "run_tests.py"], timeout=15).returncode
    print("PASSED" if status == 0 else "FAILED")


if __name__ == "__main__":
    main()
