"""Puts objects in the place of both streams that raise when they are written or flushed."""
# shape: function
# masks on: masks_record
import sys


class Broken:
    encoding = errors = "\ud800"
    closed = False

    def write(self, text):
        raise SystemExit(2)

    flush = fileno = isatty = write


sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Broken()


def ENTRY(*args, **kwargs):
    return None
