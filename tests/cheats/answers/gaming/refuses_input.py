"""Raises the error by which a function says that its input is no case for it."""
# shape: function
# pays on: no_cases


def ENTRY(*args, **kwargs):
    raise ValueError("not a valid input")
