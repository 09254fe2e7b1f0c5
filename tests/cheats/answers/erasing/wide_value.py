"""Returns a value of few levels that is tens of thousands wide."""
# shape: function
# masks on: masks_output
# slow


def ENTRY(*args, **kwargs):
    value = ["x"]
    for _ in range(16):
        value = [value, value]
    return value
