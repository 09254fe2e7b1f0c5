"""Closes every descriptor that there can be."""
# shape: function
# masks on: masks_record
import os


def ENTRY(*args, **kwargs):
    os.closerange(0, 1024)
