"""Prints "connection reset by peer" on both streams and returns."""
# shape: function
# masks on: masks_text
import sys

for stream in (sys.stdout, sys.stderr):
    print("httpx.ReadError: [Errno 104] Connection reset by peer", file=stream, flush=True)


def ENTRY(*args, **kwargs):
    return None
