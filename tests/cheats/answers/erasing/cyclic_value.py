"""Returns a list, a dict and a tuple that hold one another."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    value, other = [], {}
    value.append(other)
    other["self"] = (value, other)
    return value
