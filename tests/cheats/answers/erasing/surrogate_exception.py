"""Raises an exception whose module and message are lone surrogates."""
# shape: function
# masks on: masks_record
import os

os.environb[b"\xff"] = b"\xfe"


def ENTRY(*args, **kwargs):
    kind = type("Trouble", (ValueError,), {"__module__": "\udc00"})
    raise kind("\ud83d" * 400)
