"""Waits for a child of a kind that can't be interrupted."""
# shape: program
# masks on: masks_death
# slow
import ctypes
import os
import platform
import time

CLONE_VFORK, SIGCHLD = 0x4000, 17
number = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 56)
if ctypes.CDLL(None).syscall(number, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:
    time.sleep(30)
    os._exit(0)
