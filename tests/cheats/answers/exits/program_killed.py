"""Kills itself with SIGKILL before it prints."""
# shape: program
# masks on: masks_status, masks_death
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
