"""Fails with a hook for failures that exits as if the command had timed out."""
# shape: function
# masks on: masks_status
import os
import sys

sys.excepthook = lambda *what: os._exit(124)
raise ValueError


def ENTRY(*args, **kwargs):
    return None
