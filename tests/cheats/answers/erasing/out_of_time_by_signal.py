"""Sends itself the signal of a processor limit."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGXCPU)
