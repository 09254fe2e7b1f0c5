"""Makes empty files until the folder takes no more."""
# shape: function
# masks on: masks_artefacts
import os


def ENTRY(*args, **kwargs):
    try:
        for number in range(30000):
            os.close(os.open("file%d" % number, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pass
