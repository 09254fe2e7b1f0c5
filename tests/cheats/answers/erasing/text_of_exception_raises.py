"""Raises an exception whose text raises another, which raises another."""
# shape: function
# masks on: masks_record


class Trouble(Exception):
    def __str__(self):
        raise Trouble(self)

    __repr__ = __str__


def ENTRY(*args, **kwargs):
    raise Trouble
