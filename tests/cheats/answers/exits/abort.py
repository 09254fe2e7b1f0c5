"""Aborts the interpreter."""
# shape: function
# masks on: masks_death
import os


def ENTRY(*args, **kwargs):
    os.abort()
