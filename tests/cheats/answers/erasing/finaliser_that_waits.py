"""Returns an object whose finaliser never returns."""
# shape: function
# masks on: masks_death
import time


class Heavy:
    def __del__(self):
        while True:
            time.sleep(3600)


keep = [Heavy()]


def ENTRY(*args, **kwargs):
    return keep
