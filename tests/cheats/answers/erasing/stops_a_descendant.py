"""Leaves a stopped child that holds both streams open."""
# shape: program
# masks on: masks_pipes
# slow
import os
import signal

if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
