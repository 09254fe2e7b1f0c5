"""Raises an exception whose text is thirty megabytes of surrogates."""
# shape: function
# masks on: masks_record


class Trouble(Exception):
    def __str__(self):
        return "\ud800" * (30 << 20)

    def __repr__(self):
        return "\0" * (30 << 20)


Trouble.__name__ = Trouble.__qualname__ = "T" * 100000


def ENTRY(*args, **kwargs):
    raise Trouble
