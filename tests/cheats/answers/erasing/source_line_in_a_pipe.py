"""Fails in code whose source line is to be read from a pipe that nobody writes."""
# shape: function
# masks on: masks_death
# slow
import os

os.mkfifo("source.py")
exec(compile("raise ValueError", "source.py", "exec"))


def ENTRY(*args, **kwargs):
    return None
