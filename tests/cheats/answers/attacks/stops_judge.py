"""Stops the process above it until the judge's own time has run out."""
# shape: function
# masks on: masks_death
# slow
import os
import signal
import time


def ENTRY(*args, **kwargs):
    parent = os.getppid()
    try:
        os.kill(parent, signal.SIGSTOP)
    except OSError:
        pass
    time.sleep(4.5)
    os.kill(parent, signal.SIGCONT)
    time.sleep(3)
