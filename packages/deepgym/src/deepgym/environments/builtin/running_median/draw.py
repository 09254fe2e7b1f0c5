def middle(values):
    values = sorted(values)
    if not values:
        return None
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def played(calls):
    held, out = [], [None]
    for name, *rest in calls[1:]:
        if name == "add":
            held.append(rest[0])
            out.append(None)
        elif name == "remove":
            out.append(rest[0] in held)
            if rest[0] in held:
                held.remove(rest[0])
        else:
            out.append(middle(held))
    return out


def draw(rng):
    scripts = [
        [["RunningMedian"], ["median"], ["add", 3], ["median"], ["remove", 3], ["remove", 3], ["median"]],
        [["RunningMedian"], ["add", 5], ["add", 5], ["remove", 5], ["median"], ["add", -2], ["median"]],
    ]
    while len(scripts) < 20:
        calls = [["RunningMedian"]]
        for _ in range(rng.randint(12, 30)):
            kind = rng.choice(["add", "add", "median", "remove"])
            calls.append([kind] if kind == "median" else [kind, rng.randint(-20, 20)])
        medians = {value for value in played(calls) if isinstance(value, float)}
        if len(medians) > 2 and True in played(calls) and False in played(calls):
            scripts.append(calls)
    return [{"calls": calls, "expected": played(calls)} for calls in scripts]
