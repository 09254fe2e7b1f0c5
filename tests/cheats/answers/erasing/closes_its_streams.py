"""Closes both streams under the interpreter, and leaves a pipe in their place."""
# shape: program
# masks on: masks_output
import os

os.write(1, b"\xff")
read, write = os.pipe()
for stream in (0, 1, 2):
    os.dup2(write, stream)
os.close(read)
