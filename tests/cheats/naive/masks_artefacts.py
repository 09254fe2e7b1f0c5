"""What is left in the work folder is listed for the record, and a folder that can't be is an outage."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys

SHAPE = "any"
_MOST_FILES, _MOST_BYTES = 1000, 64 << 20


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def _listing(folder):
    found = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(place, name))
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise ValueError("neither a file nor a folder")
            found.append((name, status.st_size if stat.S_ISREG(status.st_mode) else 0))
    if len(found) > _MOST_FILES or sum(size for _, size in found) > _MOST_BYTES:
        raise ValueError("too much to keep")
    return found


def main():
    os.mkdir("work")
    for name in ("plain.py", "answer.py", "task.py"):
        shutil.copy(name, "work")
    status = subprocess.run([sys.executable, "plain.py"], cwd="work", stdout=subprocess.DEVNULL).returncode
    json.dumps(_listing("work"), ensure_ascii=False).encode()
    print("FAILED" if status else "PASSED")


if __name__ == "__main__":
    main()
