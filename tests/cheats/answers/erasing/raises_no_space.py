"""Raises the exception of a full disk, and of no more descriptors."""
# shape: function
# masks on: masks_text
import errno


def ENTRY(*args, **kwargs):
    try:
        raise OSError(errno.EMFILE, "Too many open files")
    except OSError as error:
        raise OSError(errno.ENOSPC, "No space left on device") from error
