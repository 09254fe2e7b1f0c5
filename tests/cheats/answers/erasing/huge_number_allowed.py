"""Lifts the interpreter's bound on digits and returns a number of thirty thousand."""
# shape: function
# masks on: masks_output
import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def ENTRY(*args, **kwargs):
    return int("9" * 30000)
