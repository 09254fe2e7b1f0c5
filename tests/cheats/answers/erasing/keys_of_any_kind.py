"""Returns dicts with keys that collide once they are text, or look like a tag."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    return {1: "a", "1": "b", None: "c", "null": "d", (1, 2): "e", "!t": [1], "!d": 3, frozenset(): "f", b"\xff": 1}
