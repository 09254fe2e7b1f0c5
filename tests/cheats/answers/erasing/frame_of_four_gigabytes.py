"""Announces a frame of four gigabytes and sends none of it."""
# shape: function
# masks on: masks_channel
import os
import time


def ENTRY(*args, **kwargs):
    for place in (3, 4):
        try:
            os.write(place, b"\xff\xff\xff\xff")
        except OSError:
            pass
    os._exit(0)
