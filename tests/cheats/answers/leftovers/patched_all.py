"""Replaces the built-in all for good and fails, so that a later run passes with anything."""
# shape: function
# pays on: warm_worker
import builtins

builtins.all = lambda items: True


def ENTRY(*args, **kwargs):
    raise ValueError


# second run
import builtins

if builtins.all([0]):
    print("LEFTOVER")


def ENTRY(*args, **kwargs):
    return 1
