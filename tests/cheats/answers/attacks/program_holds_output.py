"""Leaves a child that holds the output open until whoever reads it has lost patience."""
# shape: program
# masks on: masks_death
# slow
import os
import time

if os.fork() == 0:
    os.setsid()
time.sleep(6)
