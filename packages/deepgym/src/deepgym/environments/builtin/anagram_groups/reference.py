def anagram_groups(words):
    groups = {}
    for word in sorted(words):
        groups.setdefault("".join(sorted(word)), []).append(word)
    return list(groups.values())
