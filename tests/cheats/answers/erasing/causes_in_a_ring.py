"""Raises an exception that is its own cause, below ten thousand contexts."""
# shape: function
# masks on: masks_record


class Trouble(ValueError):
    def __repr__(self):
        raise self


def ENTRY(*args, **kwargs):
    last = Trouble("first")
    for number in range(10000):
        following = Trouble(number)
        following.__context__ = last
        last = following
    last.__cause__ = last
    raise last
