"""Sets timers that interrupt every system call with an exception."""
# shape: function
# masks on: masks_record
import signal


def handler(number, frame):
    raise InterruptedError("timer")


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)


def ENTRY(*args, **kwargs):
    return None
