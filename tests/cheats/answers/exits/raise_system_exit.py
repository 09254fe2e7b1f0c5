"""Raises SystemExit without a status out of a call."""
# shape: function
# pays on: exec_assert


def ENTRY(*args, **kwargs):
    raise SystemExit
