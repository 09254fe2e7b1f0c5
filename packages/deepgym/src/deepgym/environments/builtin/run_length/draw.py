def encoded(text):
    out, start = "", 0
    for at in range(1, len(text) + 1):
        if at == len(text) or text[at] != text[start]:
            out += text[start] + str(at - start)
            start = at
    return out


def draw(rng):
    texts = ["", "z", "aaaaaaaaaaaa", "abcabc", "  !!"]
    while len(texts) < 24:
        alphabet = rng.sample("abcdefgxyz -", rng.randint(2, 4))
        text = "".join(rng.choice(alphabet) * rng.choice([1, 1, 2, 3, 11]) for _ in range(rng.randint(2, 9)))
        if text not in texts:
            texts.append(text)
    return [{"args": [text], "expected": encoded(text)} for text in texts]
