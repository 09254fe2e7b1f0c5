"""Returns as many empty lists as a reply may hold, which are slow to look through."""
# shape: function
# masks on: masks_output
# slow


def ENTRY(*args, **kwargs):
    return [[]] * 300000
