"""Leaves files whose names are line breaks, escape codes and bytes of no encoding."""
# shape: function
# masks on: masks_artefacts
import os

for name in (b"\n", b"\r\n\x1b[2J", b"-rf *", b"\xff\xfe\xed\xa0\x80", b"\xe2\x80\xae" * 80, b"a" * 255, b" ", b"'\"$(exit 2)`"):
    try:
        with open(name, "wb") as file:
            file.write(name)
    except OSError:
        pass


def ENTRY(*args, **kwargs):
    return os.listdir(b".")
