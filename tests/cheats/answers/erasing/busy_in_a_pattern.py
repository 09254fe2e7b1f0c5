"""Matches a regular expression that takes longer than the universe is old."""
# shape: program
# masks on: masks_death
# slow
import re

re.match(r"(a*)*(b*)*$(?<!x)", "a" * 5000 + "c" * 9)
re.match(r"(x+x+)+y", "x" * 200)
