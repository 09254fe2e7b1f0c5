"""Writes random bytes to every descriptor beyond the streams."""
# shape: function
# masks on: masks_channel
import os

for place in range(3, 64):
    try:
        os.write(place, os.urandom(3000))
    except OSError:
        pass


def ENTRY(*args, **kwargs):
    return None
