"""Leaves a process that prints a verdict again and again until after the checker's own."""
# shape: program
# pays on: one_pipeline
# slow
import os
import time

if os.fork() == 0:
    os.setsid()
    os.close(1)
    for _ in range(400):
        os.write(2, b"\nverdict 1\n")
        time.sleep(0.02)
    os._exit(0)
print(1)
