"""Returns an integer of more digits than text may have."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    return 1 << 3000000
