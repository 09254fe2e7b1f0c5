NAMES = ["ada", "bob", "cy", "dee", "eli"]


def balances(steps):
    held = {}
    for kind, *names, amount in steps:
        if kind != "deposit":
            if held.get(names[0], 0) < amount:
                continue
            held[names[0]] -= amount
        if kind != "withdraw":
            held[names[-1]] = held.get(names[-1], 0) + amount
    return "".join(f"{name} {held[name]}\n" for name in sorted(held) if held[name] > 0)


def written(rng, steps):
    return "".join(" ".join(map(str, step)) + rng.choice(["\n", "\n", "\n\n"]) for step in steps)


def draw(rng):
    rows = [
        {"stdin": "", "stdout": ""},
        {"stdin": "deposit ada 5\ntransfer ada ada 5\n", "stdout": "ada 5\n"},
        {"stdin": "withdraw bob 1\ndeposit bob 1\ndeposit ada 2\nwithdraw ada 2", "stdout": "bob 1\n"},
    ]
    while len(rows) < 20:
        steps = []
        for _ in range(rng.randint(4, 14)):
            kind = rng.choice(["deposit", "deposit", "withdraw", "transfer"])
            names = [rng.choice(NAMES) for _ in range(2 if kind == "transfer" else 1)]
            steps.append([kind, *names, rng.randint(1, 40)])
        text = balances(steps)
        if text and all(text != row["stdout"] for row in rows):
            rows.append({"stdin": written(rng, steps), "stdout": text})
    return rows
