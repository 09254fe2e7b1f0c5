def distance(left, right):
    known = {}
    for a in range(len(left) + 1):
        for b in range(len(right) + 1):
            if a == 0 or b == 0:
                known[a, b] = a + b
                continue
            steps = [
                known[a - 1, b] + 1,
                known[a, b - 1] + 1,
                known[a - 1, b - 1] + (left[a - 1] != right[b - 1]),
            ]
            if a > 1 and b > 1 and left[a - 1] == right[b - 2] and left[a - 2] == right[b - 1]:
                steps.append(known[a - 2, b - 2] + 1)
            known[a, b] = min(steps)
    return known[len(left), len(right)]


def edited(rng, text, steps):
    chars = list(text)
    for _ in range(steps):
        at = rng.randint(0, len(chars) - 2) if len(chars) > 2 else 0
        kind = rng.choice(["swap", "swap", "drop", "add", "set"])
        if kind == "swap" and len(chars) > 2:
            chars[at], chars[at + 1] = chars[at + 1], chars[at]
        elif kind == "drop" and len(chars) > 2:
            del chars[at]
        elif kind == "add":
            chars.insert(at, rng.choice("abcd"))
        elif chars:
            chars[at] = rng.choice("abcd")
    return "".join(chars)


def draw(rng):
    pairs = [("", ""), ("", "abcdefg"), ("form", "from"), ("ca", "abc"), ("kitten", "sitting")]
    seen = {0: 1, 1: 1, 3: 2, 7: 1}
    length = 3
    while len(pairs) < 24:
        length = 3 + (length - 1) % 20
        left = "".join(rng.choice("abcd") for _ in range(length + rng.randint(0, 2)))
        right = edited(rng, left, rng.randint(1, length))
        if rng.random() < 0.4:
            right = "".join(rng.choice("abcdefgh") for _ in range(length + rng.randint(0, 6)))
        steps = distance(left, right)
        if seen.get(steps, 0) < 2:
            seen[steps] = seen.get(steps, 0) + 1
            pairs.append((left, right))
    return [{"args": [left, right], "expected": distance(left, right)} for left, right in pairs]
