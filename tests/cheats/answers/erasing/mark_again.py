"""Writes the supervisor's own signs to the channel, as if nothing had come into play."""
# shape: function
# masks on: masks_channel
import os


def ENTRY(*args, **kwargs):
    for place in (3, 4):
        for text in (b"!OSError: no sandbox", b"!", b"P1", b"ready", b"#{}\n", b"M" + bytes(8)):
            try:
                os.write(place, text)
            except OSError:
                pass
    os._exit(99)
