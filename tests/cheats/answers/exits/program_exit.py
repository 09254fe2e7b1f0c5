"""Exits with status 0 without having printed anything."""
# shape: program
# pays on: program_in_process
import sys

sys.exit(0)
