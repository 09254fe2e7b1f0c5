"""Returns three megabytes for every case."""
# shape: function
# masks on: masks_output


def ENTRY(*args, **kwargs):
    return "m" * (3 << 20)
