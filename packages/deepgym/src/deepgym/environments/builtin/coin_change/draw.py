def fewest(coins, amount):
    reached, count, seen = {0}, 0, {0}
    while reached:
        if amount in reached:
            return count
        reached = {value + coin for value in reached for coin in coins if value + coin <= amount} - seen
        seen |= reached
        count += 1
    return -1


def draw(rng):
    rows = [
        {"args": [[2], 3], "expected": -1},
        {"args": [[7], 0], "expected": 0},
        {"args": [[1, 3, 4], 6], "expected": 2},
        {"args": [[5, 9], 13], "expected": -1},
        {"args": [[1, 15, 25], 30], "expected": 2},
    ]
    seen = {-1: 2, 0: 1, 2: 2}
    tries = 0
    while len(rows) < 25 and tries < 2000:
        tries += 1
        coins = rng.sample(range(2, 30), rng.randint(2, 4))
        amount = rng.randint(10, 140)
        count = fewest(coins, amount)
        if seen.get(count, 0) < 2:
            seen[count] = seen.get(count, 0) + 1
            rows.append({"args": [coins, amount], "expected": count})
    return rows
