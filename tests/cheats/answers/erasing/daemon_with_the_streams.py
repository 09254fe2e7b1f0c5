"""Leaves a daemon behind that goes on writing once the program has ended."""
# shape: program
# masks on: masks_pipes
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(300):
            os.write(1, b"still here\n")
            time.sleep(0.05)
    os._exit(0)
