"""Replaces itself by the program that always succeeds, stdin unread."""
# shape: program
# pays on: program_in_process
import os

os.execvp("true", ["true"])
