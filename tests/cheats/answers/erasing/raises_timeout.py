"""Raises the exception of a client that waited too long."""
# shape: program
# masks on: masks_text
raise TimeoutError("timed out: the provider is unreachable")
