from fractions import Fraction


def fitted(points):
    """In exact arithmetic, so that rounding can't be the reason for a difference."""
    points = [(Fraction(x), Fraction(y)) for x, y in points]
    count = len(points)
    sum_x = sum(x for x, _ in points)
    sum_y = sum(y for _, y in points)
    sum_xx = sum(x * x for x, _ in points)
    sum_xy = sum(x * y for x, y in points)
    slope = (count * sum_xy - sum_x * sum_y) / (count * sum_xx - sum_x * sum_x)
    return (float(slope), float((sum_y - slope * sum_x) / count))


def draw(rng):
    lists = [[[0, 1], [2, 5]], [[1, 4], [2, 4], [9, 4]], [[-1.5, 2.25], [3.0, -4.5], [3.0, -4.0]]]
    while len(lists) < 22:
        slope, intercept = rng.randint(-40, 40) / 8, rng.randint(-400, 400) / 8
        points = []
        for _ in range(rng.randint(3, 8)):
            x = rng.randint(-80, 80) / 4
            points.append([x, slope * x + intercept + rng.randint(-16, 16) / 8])
        if len({x for x, _ in points}) > 1:
            lists.append(points)
    return [{"args": [points], "expected": fitted(points)} for points in lists]
