"""Gives itself and its parent the lowest priority on a core that nobody else may use, and spins."""
# shape: function
# masks on: masks_death
# slow
import os

for process in (0, os.getppid(), 1):
    for change in (
        lambda: os.setpriority(os.PRIO_PROCESS, process, 19),
        lambda: os.sched_setscheduler(process, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.sched_setaffinity(process, {max(os.sched_getaffinity(0))}),
    ):
        try:
            change()
        except OSError:
            pass


def ENTRY(*args, **kwargs):
    while True:
        pass
