"""Aborts, as a broken C library does."""
# shape: function
# masks on: masks_death
import os


def ENTRY(*args, **kwargs):
    os.abort()
