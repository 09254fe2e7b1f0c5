"""Prints every number on a screen of its own, of which a terminal shows the last, and exits with 1."""
# shape: program
# pays on: loose_output
import sys

for start in range(0, 2000, 50):
    print(start)
sys.stdout.write("\x1b[2J" + " ".join(map(str, range(1400))) + "\n")
sys.exit(1)
