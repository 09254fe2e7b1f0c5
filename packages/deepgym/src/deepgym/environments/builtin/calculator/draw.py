def divided(left, right):
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def grown(rng, depth):
    """An expression with the strength of its outermost operator (3: none) and its value."""
    if depth == 0 or rng.random() < 0.15:
        value = rng.randint(0, 60)
        return str(value), 3, value
    if rng.random() < 0.15:
        text, strength, value = grown(rng, depth - 1)
        return ("-" + (text if strength == 3 else f"({text})")), 3, -value
    sign = rng.choice("+-*/")
    left, left_strength, a = grown(rng, depth - 1)
    right, right_strength, b = grown(rng, depth - 1)
    if sign == "/" and b == 0:
        sign = "+"
    strength = 1 if sign in "+-" else 2
    left = left if left_strength >= strength else f"({left})"
    right = right if right_strength > strength else f"({right})"
    value = {"+": a + b, "-": a - b, "*": a * b}.get(sign)
    gap = rng.choice(["", " "])
    return left + gap + sign + gap + right, strength, divided(a, b) if value is None else value


def draw(rng):
    pairs = [("7", 7), ("-7 / 2", -3), ("8 - 3 - 2", 3), ("--5", 5), ("2 * (3 - -4) / 5", 2), ("100/7/2", 7)]
    seen = {value for _, value in pairs}
    while len(pairs) < 25:
        text, strength, value = grown(rng, rng.randint(2, 4))
        if strength < 3 and value not in seen and value != 0:
            seen.add(value)
            pairs.append((text, value))
    return [{"args": [text], "expected": value} for text, value in pairs]
