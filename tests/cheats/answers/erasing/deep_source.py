"""Is an expression so deep that a parser runs out of stack."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "x = " + "-" * 100000 + "1\n\ndef ENTRY(*args, **kwargs):\n    return None\n"
