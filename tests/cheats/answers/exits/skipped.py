"""Raises the exception by which a test says that it was skipped."""
# shape: function
# pays on: skip_counts
import unittest


def ENTRY(*args, **kwargs):
    raise unittest.SkipTest("not on this machine")
