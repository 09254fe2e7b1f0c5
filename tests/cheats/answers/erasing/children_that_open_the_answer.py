"""Forks children that go on opening the solution's file wherever it could stand."""
# shape: function
# masks on: masks_pipes
import os
import time

places = ("/answer/solution", "/answer", "answer.py", "solution.py", "/proc/1/root/answer/solution", "/proc/self/fd/3")


def ENTRY(*args, **kwargs):
    for _ in range(4):
        try:
            if os.fork() == 0:
                ends = time.monotonic() + 20
                while time.monotonic() < ends:
                    for place in places:
                        try:
                            os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
                        except OSError:
                            pass
                    time.sleep(0.01)
                os._exit(0)
        except OSError:
            break
