"""Is longer than any answer may be."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "def ENTRY(*args, **kwargs):\n    return None\n#" + "#" * (17 << 20) + "\n"
