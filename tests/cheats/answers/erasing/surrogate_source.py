"""Is a text with lone surrogates, which has no bytes."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "def ENTRY(*args, **kwargs):\n    return '\ud800\udfff'  # \udc80\n"
