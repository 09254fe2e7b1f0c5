"""Registers an exit function that waits for ever."""
# shape: program
# masks on: masks_death
import atexit
import threading

atexit.register(threading.Event().wait)
