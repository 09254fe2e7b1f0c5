"""Raises the exception of a lost connection."""
# shape: function
# masks on: masks_text


def ENTRY(*args, **kwargs):
    raise ConnectionResetError(104, "Connection reset by peer")
