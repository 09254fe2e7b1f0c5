def turned(matrix, turns):
    height, width = len(matrix), len(matrix[0])
    if turns % 4 == 1:
        return [[matrix[height - 1 - row][column] for row in range(height)] for column in range(width)]
    if turns % 4 == 2:
        return [row[::-1] for row in matrix[::-1]]
    if turns % 4 == 3:
        return [[matrix[row][width - 1 - column] for row in range(height)] for column in range(width)]
    return matrix


def draw(rng):
    rows = [
        {"args": [[[1, 2, 3]], 1], "expected": [[1], [2], [3]]},
        {"args": [[[1, 2], [3, 4]], -1], "expected": [[2, 4], [1, 3]]},
        {"args": [[[1, 2], [3, 4]], 8], "expected": [[1, 2], [3, 4]]},
    ]
    while len(rows) < 24:
        height, width = rng.randint(1, 4), rng.randint(2, 4)
        matrix = [[rng.randint(-9, 99) for _ in range(width)] for _ in range(height)]
        turns = rng.choice([1, 2, 3, -1, -2, -3, 5, 6, 7, -5, 103])
        if turned(matrix, turns) != matrix:
            rows.append({"args": [matrix, turns], "expected": turned(matrix, turns)})
    return rows
