"""Has its own fault handler end it for time, with a dump of a thousand threads."""
# shape: function
# masks on: masks_death
import faulthandler
import time

faulthandler.enable()


def ENTRY(*args, **kwargs):
    faulthandler.dump_traceback_later(0.05, exit=False)
    time.sleep(0.1)
    faulthandler._sigabrt()
