def reversed_bits(value, width):
    out = 0
    for bit in range(width):
        out |= (value >> bit & 1) << (width - 1 - bit)
    return out


def draw(rng):
    pairs = [(0, 7), (1, 1), (1, 16), (1 << 62, 64)]
    used = {0, 1, 1 << 15, 2}
    while len(pairs) < 24:
        width = rng.choice([5, 8, 13, 16, 24, 32, 64])
        value = rng.randint(1, (1 << width) - 1)
        out = reversed_bits(value, width)
        if out not in used and out not in (value, width):
            used.add(out)
            pairs.append((value, width))
    return [{"args": [value, width], "expected": reversed_bits(value, width)} for value, width in pairs]
