def grouped(words):
    groups = {}
    for word in words:
        groups.setdefault(tuple(sorted(word)), []).append(word)
    return [sorted(group) for _, group in sorted(groups.items())]


def draw(rng):
    lists = [[], ["a"], ["ab", "ba", "ab"], ["", "x", ""], ["aab", "abb", "bab"]]
    while len(lists) < 24:
        stems = [
            "".join(rng.choice("abcdeo") for _ in range(rng.randint(2, 4))) for _ in range(rng.randint(2, 5))
        ]
        words = []
        for _ in range(rng.randint(3, 10)):
            letters = list(rng.choice(stems))
            rng.shuffle(letters)
            words.append("".join(letters))
        lists.append(words)
    return [{"args": [words], "expected": grouped(words)} for words in lists]
