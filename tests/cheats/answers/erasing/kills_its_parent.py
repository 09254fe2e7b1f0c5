"""Kills the process that started it."""
# shape: program
# masks on: masks_judge
import os
import signal

try:
    os.kill(os.getppid(), signal.SIGKILL)
except OSError:
    pass
