"""Sends one reply that never ends over its channel."""
# shape: function
# masks on: masks_channel
import os


def ENTRY(*args, **kwargs):
    try:
        for place in (4, 3):
            try:
                os.fstat(place)
                os.write(place, b'{"id":1,"v":"')
                for _ in range(300):
                    os.write(place, b"x" * 65536)
            except OSError:
                pass
    finally:
        os._exit(0)
