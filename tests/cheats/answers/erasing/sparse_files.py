"""Leaves sparse files that are together larger than the disk."""
# shape: function
# masks on: masks_artefacts
import os


def ENTRY(*args, **kwargs):
    for number in range(200):
        with open("sparse%d" % number, "wb") as file:
            for size in (1 << 50, 60 << 20, 15 << 20):
                try:
                    os.ftruncate(file.fileno(), size)
                    break
                except OSError:
                    pass
