"""Kills itself, as the kernel does when memory runs out."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
