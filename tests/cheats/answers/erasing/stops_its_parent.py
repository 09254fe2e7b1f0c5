"""Stops its parent, and then itself."""
# shape: function
# masks on: masks_judge
# slow
import os
import signal
import time


def ENTRY(*args, **kwargs):
    for victim in (os.getppid(), 1):
        try:
            os.kill(victim, signal.SIGSTOP)
        except OSError:
            pass
    time.sleep(60)
