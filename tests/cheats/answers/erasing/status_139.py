"""Exits with the status of a shell whose command crashed."""
# shape: program
# masks on: masks_status
import sys

print("Segmentation fault (core dumped)", file=sys.stderr)
sys.exit(139)
