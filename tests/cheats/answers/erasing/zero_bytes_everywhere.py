"""Gives both streams and every value nothing but zero bytes."""
# shape: function
# masks on: masks_record
import os

os.write(1, bytes(100000))
os.write(2, bytes(100000))


def ENTRY(*args, **kwargs):
    return {"\0" * 9: "\0" * 70000}
