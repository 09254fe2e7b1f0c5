"""Renames the folder that it works in and leaves a link in its place."""
# shape: function
# masks on: masks_cleanup
import os


def ENTRY(*args, **kwargs):
    here = os.getcwd()
    try:
        os.rename(here, here + "-moved")
        os.symlink("/proc", here)
    except OSError:
        pass
    raise RuntimeError("done")
