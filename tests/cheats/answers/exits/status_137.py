"""Exits with the status of a container that was killed for its memory."""
# shape: program
# masks on: masks_status
import os

os._exit(137)
