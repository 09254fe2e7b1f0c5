def play(calls, capacity, touch=True):
    """Results of the calls; without ``touch``, a hit wouldn't count as a use."""
    order, values, out = [], {}, [None]
    for name, key, *rest in calls[1:]:
        if name == "get":
            out.append(values[key] if key in order else -1)
            if key in order and touch:
                order.remove(key)
                order.append(key)
            continue
        if key in order:
            order.remove(key)
        order.append(key)
        values[key] = rest[0]
        if len(order) > capacity:
            order.pop(0)
        out.append(None)
    return out


def script(rng):
    capacity = rng.randint(1, 4)
    calls = [["LRUCache", capacity]]
    for _ in range(rng.randint(10, 24)):
        key = rng.randint(1, capacity + 2)
        if rng.random() < 0.5:
            calls.append(["put", key, rng.randint(100, 999)])
        else:
            calls.append(["get", key])
    return calls, capacity


def draw(rng):
    calls = [["LRUCache", 1], ["put", 5, 500], ["get", 5], ["put", 6, 600], ["get", 5], ["get", 6]]
    rows = [{"calls": calls, "expected": [None, None, 500, None, -1, 600]}]
    while len(rows) < 20:
        calls, capacity = script(rng)
        expected = play(calls, capacity)
        if play(calls, 99) == expected or (capacity > 1 and play(calls, capacity, touch=False) == expected):
            continue
        rows.append({"calls": calls, "expected": expected})
    return rows
