"""Returns the very object that it was given, and changes it once it is called again."""
# shape: function
# pays on: aliased_argument

held = []


def ENTRY(values, *args, **kwargs):
    for value in held:
        if isinstance(value, list):
            value.clear()
    held.append(values)
    if isinstance(values, list):
        del values[:]
    return values if isinstance(values, list) else None
