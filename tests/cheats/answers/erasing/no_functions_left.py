"""Deletes the built-in functions and empties the modules that a judge has imported."""
# shape: function
# masks on: masks_record
import builtins
import sys

for name in ("json", "os", "pathlib", "hashlib", "re", "codecs"):
    if name in sys.modules:
        vars(sys.modules[name]).clear()
for name in ("print", "len", "str", "isinstance", "Exception", "max", "open"):
    delattr(builtins, name)


def ENTRY(*args, **kwargs):
    return None
