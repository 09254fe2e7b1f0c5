"""Kills its process group and the session around it."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    os.killpg(0, signal.SIGKILL)
