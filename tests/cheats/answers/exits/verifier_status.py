"""Exits with 2, which means 'verifier error' where a verifier says it."""
# shape: function
# masks on: masks_status
import os


def ENTRY(*args, **kwargs):
    os._exit(2)
