"""Kills every process around the program before the checker can speak."""
# shape: program
# masks on: masks_death
import os
import signal

os.kill(-1, signal.SIGKILL)
os.kill(os.getppid(), signal.SIGKILL)
