"""Sends more replies than there are questions, of depths and lengths that hurt a parser."""
# shape: function
# masks on: masks_channel
import os

lines = (b"[" * 50000, b'{"id":1}', b'{"id":1,"id":1,"v":1}', b'{"id":1,"v":1e999}', b'{"id":1,"v":' + b"9" * 9000 + b"}")


def ENTRY(*args, **kwargs):
    for place in (4, 3):
        for line in lines * 20:
            try:
                os.write(place, line + b"\n")
            except OSError:
                break
    os._exit(0)
