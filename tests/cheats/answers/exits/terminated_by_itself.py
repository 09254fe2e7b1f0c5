"""Ends itself with SIGTERM as a container's runtime would."""
# shape: function
# masks on: masks_status, masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
