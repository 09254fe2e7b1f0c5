"""Registers an exit function that changes the exit status to that of a killed container."""
# shape: function
# masks on: masks_status
import atexit
import os


@atexit.register
def last():
    os._exit(137)


def ENTRY(*args, **kwargs):
    return None
