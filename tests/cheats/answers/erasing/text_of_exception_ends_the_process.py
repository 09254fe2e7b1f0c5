"""Raises an exception whose text leaves the interpreter."""
# shape: function
# masks on: masks_record
import os


class Trouble(Exception):
    def __str__(self):
        raise SystemExit(2)

    def __repr__(self):
        os._exit(2)


def ENTRY(*args, **kwargs):
    raise Trouble
