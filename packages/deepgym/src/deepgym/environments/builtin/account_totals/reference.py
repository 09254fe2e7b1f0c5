import sys

balances = {}
for line in sys.stdin:
    fields = line.split()
    if not fields:
        continue
    kind, amount = fields[0], int(fields[-1])
    if kind == "deposit":
        balances[fields[1]] = balances.get(fields[1], 0) + amount
    elif balances.get(fields[1], 0) >= amount:
        balances[fields[1]] = balances.get(fields[1], 0) - amount
        if kind == "transfer":
            balances[fields[2]] = balances.get(fields[2], 0) + amount
for name in sorted(balances):
    if balances[name] > 0:
        print(name, balances[name])
