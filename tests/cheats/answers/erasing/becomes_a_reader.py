"""Becomes a program that copies an endless device to both streams."""
# shape: program
# masks on: masks_death
# slow
import os

os.execv("/bin/sh", ["sh", "-c", "cat /dev/zero >&2 & exec cat /dev/zero"])
