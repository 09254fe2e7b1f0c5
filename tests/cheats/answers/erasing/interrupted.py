"""Sends itself the signal of Ctrl-C, as if somebody had stopped the training."""
# shape: function
# masks on: masks_death
import signal
import time


def ENTRY(*args, **kwargs):
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.01)
