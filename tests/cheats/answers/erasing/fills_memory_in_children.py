"""Takes memory in many children, each below its own limit."""
# shape: function
# masks on: masks_pipes
import os
import time


def ENTRY(*args, **kwargs):
    for _ in range(5):
        try:
            if os.fork() == 0:
                held = b"x" * (150 << 20)
                time.sleep(30)
                os._exit(len(held) & 1)
        except OSError:
            break
    time.sleep(0.2)
    os._exit(137)
