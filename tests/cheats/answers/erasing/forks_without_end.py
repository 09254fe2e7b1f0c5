"""Forks until no process is left, in children that hold both streams."""
# shape: program
# masks on: masks_pipes
import os
import time

for _ in range(60):
    try:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
    except OSError:
        break
