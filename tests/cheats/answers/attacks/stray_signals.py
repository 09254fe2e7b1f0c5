"""Sends every process the signals that end those who don't expect them."""
# shape: function
# masks on: masks_death
import os
import signal


def ENTRY(*args, **kwargs):
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP, signal.SIGRTMIN):
        signal.signal(number, signal.SIG_IGN)
        try:
            os.kill(-1, number)
            os.kill(os.getppid(), number)
        except OSError:
            pass
    raise RuntimeError("done")
