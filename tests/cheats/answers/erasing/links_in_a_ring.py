"""Leaves symbolic links that point at themselves, at one another and at nothing."""
# shape: function
# masks on: masks_cleanup
import os

for source, target in (("a", "b"), ("b", "a"), ("self", "self"), ("none", "/nowhere/at/all"), ("up", "../" * 500)):
    try:
        os.symlink(source, target)
        os.symlink(target, source + "2")
    except OSError:
        pass


def ENTRY(*args, **kwargs):
    return None
