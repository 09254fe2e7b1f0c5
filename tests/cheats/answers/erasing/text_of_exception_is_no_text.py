"""Raises an exception whose text is a number and whose name changes at every look."""
# shape: function
# masks on: masks_record
names = iter(["\udc00", "", "\n" * 5000] * 10000)


class Meta(type):
    @property
    def __name__(cls):
        return next(names)


class Trouble(Exception, metaclass=Meta):
    def __str__(self):
        return 7


def ENTRY(*args, **kwargs):
    raise Trouble
