"""Exits with status 0 before it is tested."""
# shape: function
# pays on: exec_assert
import sys


def ENTRY(*args, **kwargs):
    return None


sys.exit(0)
