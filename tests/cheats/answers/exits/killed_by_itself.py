"""Kills itself with SIGKILL as the kernel would for want of memory."""
# shape: function
# masks on: masks_status, masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
