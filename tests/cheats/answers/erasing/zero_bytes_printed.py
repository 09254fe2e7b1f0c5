"""Prints zero bytes and control characters, whose escapes are six times as long."""
# shape: program
# masks on: masks_output
import os

os.write(1, (bytes(range(32)) + b"\x7f") * 40000)
os.write(2, b"\0" * (1 << 20))
