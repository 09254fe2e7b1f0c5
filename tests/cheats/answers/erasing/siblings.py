"""Makes processes that its parent must wait for, not itself."""
# shape: function
# masks on: masks_pipes
import ctypes
import os
import platform
import time

CLONE_PARENT, SIGCHLD = 0x8000, 17
number = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 56)


def ENTRY(*args, **kwargs):
    for _ in range(3):
        if ctypes.CDLL(None).syscall(number, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
            time.sleep(30)
            os._exit(0)
