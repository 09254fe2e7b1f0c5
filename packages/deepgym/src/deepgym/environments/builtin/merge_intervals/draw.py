def merged(intervals):
    events = sorted([(start, 0) for start, _ in intervals] + [(end, 1) for _, end in intervals])
    out, depth, begin = [], 0, 0
    for at, closes in events:
        if not closes:
            if depth == 0:
                begin = at
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                out.append([begin, at])
    return out


def draw(rng):
    lists = [[], [[1, 9], [2, 3]], [[1, 2], [2, 5]], [[4, 4], [4, 4], [1, 2]], [[3, 5], [-2, -1]]]
    while len(lists) < 24:
        intervals = []
        for _ in range(rng.randint(3, 9)):
            start = rng.randint(-30, 60)
            intervals.append([start, start + rng.randint(0, 14)])
        if merged(intervals) != intervals:
            lists.append(intervals)
    return [{"args": [intervals], "expected": merged(intervals)} for intervals in lists]
