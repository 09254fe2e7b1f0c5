import heapq


def shortest_paths(count, edges, source):
    after = [[] for _ in range(count)]
    for start, end, length in edges:
        after[start].append((end, length))
    best = [None] * count
    queue = [(0, source)]
    while queue:
        distance, node = heapq.heappop(queue)
        if best[node] is not None:
            continue
        best[node] = distance
        for end, length in after[node]:
            if best[end] is None:
                heapq.heappush(queue, (distance + length, end))
    return best
