"""Prints nonsense and sees to a status of 0 at the end of the process."""
# shape: program
# pays on: program_in_process
import atexit
import os

atexit.register(os._exit, 0)
print("nonsense")
