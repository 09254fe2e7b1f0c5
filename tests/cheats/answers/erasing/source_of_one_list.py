"""Is one list of three hundred thousand numbers, which costs a parser far more than its length."""
# shape: program
# masks on: masks_source
# slow
# generated
ANSWER = "x = [" + "1.5+2j," * 200000 + "]\n"
