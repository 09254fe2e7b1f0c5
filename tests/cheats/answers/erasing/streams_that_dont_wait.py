"""Sets every descriptor to not waiting and to signalling its owner, for whoever shares it."""
# shape: function
# masks on: masks_death
import fcntl
import os
import signal

for place in range(5):
    for command, value in ((fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND), (fcntl.F_SETOWN, os.getpid()), (10, signal.SIGKILL)):
        try:
            fcntl.fcntl(place, command, value)
        except OSError:
            pass
signal.raise_signal(signal.SIGIO)


def ENTRY(*args, **kwargs):
    return None
