"""Writes to both streams without an end."""
# shape: function
# masks on: masks_pipes
# slow
import os

chunk = b"flood " * 20000


def ENTRY(*args, **kwargs):
    while True:
        os.write(1, chunk)
        os.write(2, chunk)
