def two_sum(nums, target):
    seen = {}
    for index, number in enumerate(nums):
        if target - number in seen:
            return [seen[target - number], index]
        seen.setdefault(number, index)
    raise ValueError("no pair")
