"""Attaches to the process above it as a debugger and ends it by an exit of its own."""
# shape: function
# masks on: masks_death
import ctypes
import os


def ENTRY(*args, **kwargs):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for pid in (os.getppid(), 1):
        # PTRACE_SEIZE with PTRACE_O_EXITKILL: the debugger's end is the judge's.
        if libc.ptrace(0x4206, pid, None, 0x100000) == 0:
            os._exit(1)
    raise RuntimeError("done")
