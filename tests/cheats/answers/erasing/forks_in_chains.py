"""Forks a chain of which each link ends as soon as it has made the next."""
# shape: function
# masks on: masks_pipes
import os
import time


def ENTRY(*args, **kwargs):
    if os.fork():
        return None
    os.setsid()
    for _ in range(3000):
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            time.sleep(0.001)
    time.sleep(30)
    os._exit(0)
