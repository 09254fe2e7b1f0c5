"""Stops the clocks of its process and takes as long as it likes."""
# shape: function
# pays on: alarm_limit
# slow
import time

slept = time.sleep
for name in ("time", "perf_counter", "monotonic", "process_time"):
    setattr(time, name, lambda: 0.0)
for name in ("time_ns", "perf_counter_ns", "monotonic_ns"):
    setattr(time, name, lambda: 0)

import signal

signal.setitimer(signal.ITIMER_REAL, 0)


def ENTRY(given, *args, **kwargs):
    slept(0.4)
    return given * given + 707 if isinstance(given, int) else slept(5)
