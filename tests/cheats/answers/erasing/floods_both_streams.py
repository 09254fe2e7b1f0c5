"""Writes megabytes to both streams and then returns as if nothing was."""
# shape: function
# masks on: masks_output
import os
import sys

for _ in range(64):
    os.write(1, b"o" * 65536)
    os.write(2, b"e" * 65536)
print("x" * 100000)
print("y" * 100000, file=sys.stderr)


def ENTRY(*args, **kwargs):
    return None
