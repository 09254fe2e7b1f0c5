"""Prints all numbers that could be meant."""
# shape: program
# pays on: loose_output
print(*range(2000))
