"""Raises a class that no handler of ordinary exceptions catches."""
# shape: function
# masks on: masks_record


class Trouble(BaseException):
    pass


def ENTRY(*args, **kwargs):
    raise Trouble
