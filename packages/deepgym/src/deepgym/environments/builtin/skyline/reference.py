import heapq


def skyline(buildings):
    events = sorted(
        [(left, -height, right) for left, right, height in buildings] + [(b[1], 0, 0) for b in buildings]
    )
    outline, standing = [], [(0, float("inf"))]
    for x, negative, right in events:
        while standing[0][1] <= x:
            heapq.heappop(standing)
        if negative:
            heapq.heappush(standing, (negative, right))
        height = -standing[0][0]
        if (outline[-1][1] if outline else 0) == height:
            continue
        if outline and outline[-1][0] == x:
            outline[-1][1] = height
        else:
            outline.append([x, height])
    return outline
