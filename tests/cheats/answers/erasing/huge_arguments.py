"""Becomes a sleeping program with as large an environment and arguments as the kernel takes."""
# shape: function
# masks on: masks_death
# slow
import os


def ENTRY(*args, **kwargs):
    for count in (40, 10, 1):
        try:
            os.execve("/bin/sleep", ["sleep", "60"] + ["0" * 100000] * count, {"E%d" % n: "v" * 100000 for n in range(count)})
        except OSError:
            pass
