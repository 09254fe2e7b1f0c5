"""Dies of a fault in memory after it has printed half a line."""
# shape: program
# masks on: masks_death
import ctypes

print("1", end="", flush=True)
ctypes.string_at(1)
