"""Raises an exception that can't be reduced, copied or pickled."""
# shape: function
# masks on: masks_record


class Trouble(Exception):
    def __reduce__(self):
        raise Trouble

    def __reduce_ex__(self, protocol):
        raise Trouble

    def __getstate__(self):
        raise Trouble


def ENTRY(*args, **kwargs):
    raise Trouble("no")
