def pairs(nums, target):
    return [
        [low, high]
        for low in range(len(nums))
        for high in range(low + 1, len(nums))
        if nums[low] + nums[high] == target
    ]


def draw(rng):
    rows = [
        {"args": [[3, 3], 6], "expected": [0, 1]},
        {"args": [[-4, 9, 0, 4, 7], 0], "expected": [0, 3]},
        {"args": [[0, 5, 1, 0], 0], "expected": [0, 3]},
    ]
    seen = {(0, 3): 1}
    while len(rows) < 24:
        nums = [rng.randint(-60, 60) for _ in range(rng.randint(4, 12))]
        low, high = sorted(rng.sample(range(len(nums)), 2))
        target = nums[low] + nums[high]
        if high == 1 or seen.get((low, high), 0) > 0 or len(pairs(nums, target)) != 1:
            continue
        seen[low, high] = 1
        rows.append({"args": [nums, target], "expected": [low, high]})
    return rows
