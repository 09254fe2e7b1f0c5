"""Kills every process that it may signal, and then itself."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
