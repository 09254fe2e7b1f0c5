"""Ends the process and leaves a child to answer in its place."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    parent = os.getpid()
    if os.fork() == 0:
        os.kill(parent, signal.SIGKILL)
