"""Replaces itself by the program that always succeeds."""
# shape: function
# pays on: exec_assert
import os


def ENTRY(*args, **kwargs):
    os.execvp("true", ["true"])
