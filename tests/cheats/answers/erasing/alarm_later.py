"""Sets a timer that ends the process while it is being asked."""
# shape: function
# masks on: masks_death
import signal
import time

signal.setitimer(signal.ITIMER_REAL, 0.05)


def ENTRY(*args, **kwargs):
    time.sleep(0.2)
