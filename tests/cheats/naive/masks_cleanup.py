"""The work folder is emptied before the verdict is kept, and a failure there drops the sample."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def _remove(folder):
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        if os.path.isdir(path) and not os.path.islink(path):
            _remove(path)
        else:
            with open(path, "rb") as kept:
                kept.read(1 << 24).decode()
            os.unlink(path)
    os.rmdir(folder)


def main():
    os.mkdir("work")
    for name in ("plain.py", "answer.py", "task.py"):
        shutil.copy(name, "work")
    command = [sys.executable, "-B", "plain.py"]
    status = subprocess.run(command, cwd="work", stdout=subprocess.DEVNULL).returncode
    _remove("work")
    print("FAILED" if status else "PASSED")


if __name__ == "__main__":
    main()
