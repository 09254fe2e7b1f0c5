"""Takes kernel memory in pipes that nobody reads, and waits."""
# shape: function
# masks on: masks_record
import fcntl
import os


def ENTRY(*args, **kwargs):
    try:
        while True:
            _, write = os.pipe2(os.O_NONBLOCK)
            try:
                fcntl.fcntl(write, 1031, 1 << 20)
            except OSError:
                pass
            try:
                while os.write(write, bytes(65536)):
                    pass
            except BlockingIOError:
                pass
    except OSError:
        pass
    try:
        while True:
            os.dup(0)
    except OSError:
        pass
