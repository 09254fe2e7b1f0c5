"""Computes a power in one call that no Python code can interrupt."""
# shape: function
# masks on: masks_death
# slow


def ENTRY(*args, **kwargs):
    return 9 ** (9 ** 9)
