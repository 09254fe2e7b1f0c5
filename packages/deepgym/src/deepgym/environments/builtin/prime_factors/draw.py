PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61]


def draw(rng):
    rows = [
        {"args": [1], "expected": set()},
        {"args": [16], "expected": {2}},
        {"args": [49], "expected": {7}},
        {"args": [99991], "expected": {99991}},
    ]
    used = [set(), {2}, {7}, {99991}]
    while len(rows) < 24:
        factors = rng.sample(PRIMES, rng.randint(1, 4))
        number = 1
        for factor in factors:
            number *= factor ** rng.randint(1, 2)
        if set(factors) not in used and factors != [number] and number < 10**9:
            used.append(set(factors))
            rows.append({"args": [number], "expected": set(factors)})
    return rows
