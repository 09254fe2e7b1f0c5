"""Exits with the status of a killed container, from the first call."""
# shape: function
# masks on: masks_status
import os


def ENTRY(*args, **kwargs):
    os._exit(137)
