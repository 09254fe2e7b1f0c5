def distances(count, edges, source):
    best = [None] * count
    best[source] = 0
    for _ in range(count):
        for start, end, length in edges:
            if best[start] is not None and (best[end] is None or best[start] + length < best[end]):
                best[end] = best[start] + length
    return best


def draw(rng):
    graphs = [
        (1, [], 0),
        (3, [[0, 1, 4]], 0),
        (3, [[0, 1, 9], [0, 2, 1], [2, 1, 2]], 0),
        (2, [[0, 1, 0], [0, 1, 5], [1, 1, 3]], 0),
    ]
    while len(graphs) < 22:
        count = rng.randint(3, 8)
        edges = []
        for _ in range(rng.randint(count, 3 * count)):
            edges.append([rng.randint(0, count - 1), rng.randint(0, count - 1), rng.randint(0, 20)])
        source = rng.randint(0, count - 1)
        if sum(distance is not None for distance in distances(count, edges, source)) > 2:
            graphs.append((count, edges, source))
    return [{"args": list(graph), "expected": distances(*graph)} for graph in graphs]
