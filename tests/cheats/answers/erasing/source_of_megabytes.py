"""Is a text of twelve megabytes."""
# shape: program
# masks on: masks_source
# slow
# generated
ANSWER = "x = 1\n" + ("#" * 99 + "\n") * 120000
