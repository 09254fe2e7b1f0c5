"""Prints one line of many megabytes that never breaks."""
# shape: program
# masks on: masks_output
import os
import sys

print("7" * (4 << 20), end="")
sys.stdout.flush()
os.write(1, b"8" * (1 << 20))
