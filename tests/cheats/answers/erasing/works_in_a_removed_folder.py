"""Leaves the process in a folder that isn't there any more."""
# shape: function
# masks on: masks_record
import os

os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")


def ENTRY(*args, **kwargs):
    return None
