"""Writes half a reply to its channel and ends."""
# shape: function
# masks on: masks_channel
import os


def ENTRY(*args, **kwargs):
    for place in (3, 4):
        try:
            os.write(place, b'{"id": 1, "v": [1, 2')
        except OSError:
            pass
    os._exit(1)
