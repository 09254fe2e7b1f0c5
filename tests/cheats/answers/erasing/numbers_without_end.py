"""Returns NaN, infinities and negative zeros in every place."""
# shape: function
# masks on: masks_record


def ENTRY(*args, **kwargs):
    return {"a": float("nan"), "b": [float("inf"), -float("inf"), -0.0], "c": (complex("nan+infj"),)}
