"""Returns lone surrogates, as value, key and item."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    return {"\ud800": ["\udfff", {"\udc80": "\ud83d" * 100}], "a": "\ude00\ud83d"}
