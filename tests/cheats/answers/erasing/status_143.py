"""Exits with the status of a terminated container, when it is loaded."""
# shape: function
# masks on: masks_status
import sys

sys.exit(143)


def ENTRY(*args, **kwargs):
    return None
