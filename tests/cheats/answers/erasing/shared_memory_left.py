"""Takes memory in shared segments that outlive their maker, and dies."""
# shape: function
# masks on: masks_death
import ctypes
import os
import signal

libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(16):
    found = libc.shmget(0, ctypes.c_size_t(16 << 20), 0o1600)
    place = libc.shmat(found, None, 0) if found >= 0 else None
    if place and place != 2**64 - 1:
        ctypes.memset(place, 1, 16 << 20)
os.kill(os.getpid(), signal.SIGKILL)


def ENTRY(*args, **kwargs):
    return None
