"""Sleeps before it has defined anything."""
# shape: function
# masks on: masks_death
# slow
import time

time.sleep(3600)


def ENTRY(*args, **kwargs):
    return None
