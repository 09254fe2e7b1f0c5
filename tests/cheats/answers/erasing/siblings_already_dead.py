"""Makes processes for its parent to wait for, which are dead before it is."""
# shape: function
# masks on: masks_death
import ctypes
import os
import platform
import signal
import time

CLONE_PARENT, SIGCHLD = 0x8000, 17
number = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 56)


def ENTRY(*args, **kwargs):
    for _ in range(9):
        if ctypes.CDLL(None).syscall(number, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)
    time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
