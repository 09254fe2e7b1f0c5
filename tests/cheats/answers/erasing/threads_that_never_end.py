"""Starts threads that the interpreter waits for, and that never end."""
# shape: function
# masks on: masks_death
import threading


def ENTRY(*args, **kwargs):
    for _ in range(6):
        try:
            threading.Thread(target=threading.Event().wait).start()
        except RuntimeError:
            break
