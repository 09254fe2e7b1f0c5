"""Forbids itself to open any more descriptors, or to write to any file."""
# shape: function
# masks on: masks_record
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def ENTRY(*args, **kwargs):
    return None
