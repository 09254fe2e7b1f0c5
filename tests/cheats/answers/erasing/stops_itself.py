"""Stops itself, so that it neither answers nor ends."""
# shape: function
# masks on: masks_death
# slow
import os
import signal


def ENTRY(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGSTOP)
