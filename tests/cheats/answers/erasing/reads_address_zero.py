"""Reads the memory at address zero."""
# shape: program
# masks on: masks_status
import ctypes

ctypes.string_at(0)
