"""Raises the exception that closes generators and coroutines."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    raise GeneratorExit
