"""Returns a list in a list in a list, a hundred thousand deep."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    value = []
    for _ in range(100000):
        value = [value]
    return value
