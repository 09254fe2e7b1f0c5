"""Spins in as many processes and threads as it gets, all of another session."""
# shape: function
# masks on: masks_death
# slow
import os
import threading


def spin():
    while True:
        pass


for _ in range(6):
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        break
for _ in range(3):
    try:
        threading.Thread(target=spin).start()
    except RuntimeError:
        break


def ENTRY(*args, **kwargs):
    spin()
