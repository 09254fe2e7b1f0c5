"""Puts a link in the place of the folder that it works in."""
# shape: function
# masks on: masks_cleanup
import os


def ENTRY(*args, **kwargs):
    here = os.getcwd()
    try:
        os.chdir("/tmp")
        os.rename(here, "/tmp/elsewhere")
        os.symlink("/proc/self", here)
    except OSError:
        pass
