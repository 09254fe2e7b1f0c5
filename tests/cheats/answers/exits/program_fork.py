"""Forks; the parent exits with status 0 and the child keeps the output open."""
# shape: program
# pays on: program_in_process
import os
import time

if os.fork():
    os._exit(0)
time.sleep(0.1)
