def outlined(buildings):
    outline, last = [], 0
    for x in sorted({x for left, right, _ in buildings for x in (left, right)}):
        height = max([height for left, right, height in buildings if left <= x < right], default=0)
        if height != last:
            outline.append([x, height])
            last = height
    return outline


def draw(rng):
    lists = [
        [],
        [[1, 2, 3]],
        [[0, 2, 3], [2, 5, 3]],
        [[1, 9, 4], [3, 5, 2], [3, 9, 7]],
        [[0, 5, 7], [5, 10, 7], [5, 10, 12]],
    ]
    while len(lists) < 24:
        buildings = []
        for _ in range(rng.randint(2, 9)):
            left = rng.randint(0, 30)
            buildings.append([left, left + rng.randint(1, 12), rng.randint(1, 9)])
        lists.append(buildings)
    return [{"args": [buildings], "expected": outlined(buildings)} for buildings in lists]
