"""Writes without an end, one byte at a time, from as many processes as it can have."""
# shape: function
# masks on: masks_death
# slow
import os

for _ in range(8):
    try:
        os.fork()
    except OSError:
        break


def ENTRY(*args, **kwargs):
    while True:
        os.write(1, b"\n")
        os.write(2, b"\0")
