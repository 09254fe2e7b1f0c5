def best(numbers, limits):
    return [max([limit ^ number for number in numbers if number <= limit], default=-1) for limit in limits]


def draw(rng):
    pairs = [([0], [0]), ([1, 2, 8], [0, 3, 9]), ([5, 5], [4, 5, 6]), ([(1 << 30) - 1], [(1 << 30) - 1, 7])]
    while len(pairs) < 24:
        top = (1 << rng.choice([4, 8, 16, 30])) - 1
        numbers = [rng.randint(0, top) for _ in range(rng.randint(2, 12))]
        limits = [rng.randint(0, top) for _ in range(rng.randint(2, 6))]
        if len(set(best(numbers, limits))) > 1 and best(numbers, limits) != limits:
            pairs.append((numbers, limits))
    return [{"args": [numbers, limits], "expected": best(numbers, limits)} for numbers, limits in pairs]
