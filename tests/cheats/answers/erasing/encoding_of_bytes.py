"""Says that its text is in an encoding that isn't one of text."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "# coding: hex\ndef ENTRY(*args, **kwargs):\n    return None\n"
