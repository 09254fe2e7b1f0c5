"""Ends the process at once with status 0 and nothing printed."""
# shape: program
# pays on: program_in_process
import os

os._exit(0)
