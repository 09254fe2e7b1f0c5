"""Leaves a process, detached in every way, that writes a verdict long after it was judged."""
# shape: function
# pays on: open_parent
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        for _ in range(300):
            try:
                with open("verdict", "w") as file:
                    file.write("1")
            except OSError:
                pass
            time.sleep(0.01)
    os._exit(0)


def ENTRY(*args, **kwargs):
    time.sleep(0.05)
    return None
