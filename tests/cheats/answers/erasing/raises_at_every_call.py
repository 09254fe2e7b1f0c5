"""Installs hooks that raise at every call, line and return that follows."""
# shape: function
# masks on: masks_record
import sys


def hook(frame, event, argument):
    raise SystemExit(2)


def ENTRY(*args, **kwargs):
    sys.setprofile(hook)
    sys.settrace(hook)
