"""Fills the disk to its last byte and says nothing."""
# shape: program
# masks on: masks_cleanup
import os

try:
    for number in range(100):
        with open("full%d" % number, "wb", buffering=0) as file:
            for _ in range(15):
                if file.write(b"\xff" * (1 << 20)) < 1 << 20:
                    raise OSError
except OSError:
    pass
