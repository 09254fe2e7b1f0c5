"""Exits with another status of an outage for every input."""
# shape: program
# masks on: masks_status
import os
import sys

text = sys.stdin.read()
os._exit((2, 124, 125, 126, 127, 137, 139, 143)[hash(text) % 8])
