"""Sleeps until its time is over."""
# shape: program
# masks on: masks_death
# slow
import time

time.sleep(3600)
