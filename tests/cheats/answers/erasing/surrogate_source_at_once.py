"""Is nothing but lone surrogates."""
# shape: program
# masks on: masks_source
# generated
ANSWER = "\ud800" * 5000
