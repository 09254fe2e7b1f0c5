"""Writes as much as is kept of both streams, in zero bytes, and then sleeps through the case."""
# shape: function
# masks on: masks_death
# slow
import os
import time


def ENTRY(*args, **kwargs):
    os.write(1, bytes(65536))
    os.write(2, bytes(65536))
    time.sleep(60)
