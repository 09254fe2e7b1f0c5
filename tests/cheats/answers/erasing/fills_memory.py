"""Takes memory until there is none, and holds it."""
# shape: function
# masks on: masks_text
held = []


def ENTRY(*args, **kwargs):
    size = 64 << 20
    while size > 4096:
        try:
            held.append(bytearray(size))
        except MemoryError:
            size //= 2
    raise MemoryError
