"""Prints lone surrogates past the encoder."""
# shape: program
# masks on: masks_output
import os
import sys

text = "\ud800\udfff\udc80" * 2000
os.write(1, text.encode("utf-8", "surrogatepass"))
os.write(2, text.encode("utf-8", "surrogatepass"))
print(text.encode("utf-16-le", "surrogatepass"), file=sys.stderr)
