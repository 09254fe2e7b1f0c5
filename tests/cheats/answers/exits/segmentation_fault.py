"""Reads address 0, so that the process dies of a fault in memory."""
# shape: function
# masks on: masks_status, masks_death
import ctypes


def ENTRY(*args, **kwargs):
    ctypes.string_at(0)
