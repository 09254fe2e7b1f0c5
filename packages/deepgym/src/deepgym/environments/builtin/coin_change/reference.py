def coin_change(coins, amount):
    fewest = [0] + [amount + 1] * amount
    for value in range(1, amount + 1):
        for coin in coins:
            if coin <= value:
                fewest[value] = min(fewest[value], fewest[value - coin] + 1)
    return fewest[amount] if fewest[amount] <= amount else -1
