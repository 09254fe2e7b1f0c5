"""Exits with status 0 when it is called."""
# shape: function
# pays on: exec_assert
import sys


def ENTRY(*args, **kwargs):
    sys.exit(0)
