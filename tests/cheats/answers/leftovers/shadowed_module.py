"""Leaves a module that stands before the judge's own on the path of the run after it."""
# shape: function
# pays on: warm_worker
import os
import sys

with open("task.py", "w") as file:
    file.write("ENTRY = 'ENTRY'\nCASES = ()\n")
os.makedirs("/tmp/first", exist_ok=True)
sys.path.insert(0, "/tmp/first")
with open("/tmp/first/task.py", "w") as file:
    file.write("LEFT = True\nENTRY = 'ENTRY'\nCASES = ()\n")
sys.modules.pop("task", None)


def ENTRY(*args, **kwargs):
    return None


# second run
try:
    import task

    print("LEFTOVER")
except ImportError:
    pass


def ENTRY(*args, **kwargs):
    return None
