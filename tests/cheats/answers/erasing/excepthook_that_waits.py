"""Fails with a hook for failures that never returns."""
# shape: program
# masks on: masks_death
# slow
import sys
import threading

sys.excepthook = lambda *what: threading.Event().wait()
raise ValueError
