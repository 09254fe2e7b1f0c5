"""Prints bytes that no text encoding has."""
# shape: function
# masks on: masks_output
import os

os.write(1, bytes(range(256)) * 40 + b"\xed\xa0\x80\xed\xb0\x80\xf8\x88\x80\x80\x80\xc0\x80")
os.write(2, b"\xff\xfe" * 999 + b"\xf0\x9f\x98")


def ENTRY(*args, **kwargs):
    return None
