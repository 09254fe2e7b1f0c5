def shortest(text, needed):
    if not needed:
        return ""
    for length in range(len(needed), len(text) + 1):
        for start in range(len(text) - length + 1):
            part = text[start : start + length]
            if all(part.count(char) >= needed.count(char) for char in set(needed)):
                return part
    return ""


def draw(rng):
    pairs = [("abc", ""), ("aab", "aaa"), ("a", "a"), ("acbba", "ab"), ("adobecodebanc", "abc")]
    seen = {"", "a", "acb", "banc"}
    while len(pairs) < 24:
        text = "".join(rng.choice("aabcdef") for _ in range(rng.randint(8, 22)))
        needed = "".join(rng.choice("abcdef") for _ in range(rng.randint(3, 5)))
        found = shortest(text, needed)
        if found and found != text and found != needed and found not in seen:
            seen.add(found)
            pairs.append((text, needed))
    return [{"args": [text, needed], "expected": shortest(text, needed)} for text, needed in pairs]
