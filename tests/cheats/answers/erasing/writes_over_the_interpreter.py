"""Writes over the interpreter's own objects until something gives."""
# shape: function
# masks on: masks_death
import ctypes


def ENTRY(*args, **kwargs):
    for victim in (None, True, (), type, int, object):
        ctypes.memset(id(victim), 0x41, 4096)
    return {}
