"""Makes itself as unlikely a victim as its judge, then takes memory until the kernel must choose."""
# shape: function
# masks on: masks_text
# slow
import os

for value in (b"-1000", b"-500", b"0"):
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(value)
    except OSError:
        pass
files, held = [], []


def ENTRY(*args, **kwargs):
    for _ in range(45):
        try:
            files.append(os.memfd_create("m"))
            os.write(files[-1], b"x" * (15 << 20))
        except OSError:
            break
    try:
        while True:
            held.append(b"y" * (32 << 20))
    except MemoryError:
        held.clear()
        raise
