"""Becomes a shell that exits as if it had been killed for its memory."""
# shape: function
# masks on: masks_status
import os


def ENTRY(*args, **kwargs):
    os.execv("/bin/sh", ["sh", "-c", "echo Killed >&2; exit 137"])
