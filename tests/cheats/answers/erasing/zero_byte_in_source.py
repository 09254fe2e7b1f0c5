"""Has zero bytes in its text."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "def ENTRY(*args, **kwargs):\n    return '\0'\n# " + "\0" * 5000 + "\n"
