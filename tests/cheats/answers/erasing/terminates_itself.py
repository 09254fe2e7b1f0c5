"""Sends itself the signal by which a node is drained."""
# shape: program
# masks on: masks_status
import os
import signal

os.kill(os.getpid(), signal.SIGTERM)
