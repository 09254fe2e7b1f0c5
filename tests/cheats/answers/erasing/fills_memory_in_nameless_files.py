"""Takes memory in files without names, which no limit of a process counts, and dies."""
# shape: function
# masks on: masks_death
# slow
import os
import signal

held = []
for _ in range(50):
    try:
        held.append(os.memfd_create("m"))
        for _ in range(15):
            os.write(held[-1], b"x" * (1 << 20))
    except OSError:
        break
os.kill(os.getpid(), signal.SIGKILL)


def ENTRY(*args, **kwargs):
    return None
