"""Returns a module, a generator, a file and a function."""
# shape: function
# masks on: masks_record
import sys


def ENTRY(*args, **kwargs):
    return [sys, (n for n in range(9)), sys.stderr, ENTRY, memoryview(b"x"), object(), Ellipsis, type]
