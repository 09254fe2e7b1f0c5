"""Writes the mark of a run's beginning once more with a time far ahead, and fails."""
# shape: function
# masks on: masks_text
import os
import time


def ENTRY(*args, **kwargs):
    late = b"S" + (time.monotonic_ns() + 10**15).to_bytes(8, "little")
    for fd in (3, 4):
        try:
            os.write(fd, late + b"Ssandbox error")
        except OSError:
            pass
    os.write(2, b"sandbox timed out before the start\n")
    os._exit(1)
