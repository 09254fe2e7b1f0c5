"""Raises the exception of a host without memory."""
# shape: program
# masks on: masks_text
raise MemoryError("out of memory: oom-kill: constraint=CONSTRAINT_MEMCG")
