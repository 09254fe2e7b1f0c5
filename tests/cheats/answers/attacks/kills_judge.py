"""Kills the process above it."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    for pid in {os.getppid(), os.getpgid(0), os.getsid(0)} - {0, os.getpid()}:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    raise RuntimeError("done")
