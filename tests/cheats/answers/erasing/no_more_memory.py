"""Forbids itself any more memory."""
# shape: program
# masks on: masks_text
import resource

resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
resource.setrlimit(resource.RLIMIT_DATA, (1 << 20, 1 << 20))
held = [bytes(1 << 24) for _ in range(9)]
