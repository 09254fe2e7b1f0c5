"""Recurses through C in a thread of the smallest stack, until the stack is gone."""
# shape: function
# masks on: masks_death
import threading

threading.stack_size(32768)


def descend(item):
    return max([item], key=descend)


def ENTRY(*args, **kwargs):
    thread = threading.Thread(target=descend, args=(0,))
    thread.start()
    thread.join()
