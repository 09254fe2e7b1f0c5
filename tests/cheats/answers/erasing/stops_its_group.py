"""Stops its whole process group, the judge in it."""
# shape: program
# masks on: masks_judge
# slow
import os
import signal

for number in (signal.SIGTSTP, signal.SIGSTOP):
    os.kill(0, number)
