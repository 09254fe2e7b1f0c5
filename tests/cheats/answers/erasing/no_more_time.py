"""Lowers its own processor limit to what it has used up already."""
# shape: function
# masks on: masks_death
# slow
import resource

resource.setrlimit(resource.RLIMIT_CPU, (1, 1))


def ENTRY(*args, **kwargs):
    while True:
        pass
