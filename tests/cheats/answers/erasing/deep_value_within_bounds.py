"""Returns dicts and tuples as deep as may cross, and one deeper."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    value = {1, 2}
    for number in range(62 + kwargs.get("more", 0)):
        value = {"k": (value,)} if number % 2 else [value]
    return value
