LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["red", "Fox", "jumps", "OVER", "lazy", "dog", "it", "It", "s", "fox", "x", "Over", "Dog"]
GAPS = [" ", ", ", "-", "'", "  ", "\n", "_", "7", "; "]


def counted(text):
    counts, word = {}, ""
    for char in text.lower() + " ":
        if char in LETTERS:
            word += char
        elif word:
            counts[word] = counts.get(word, 0) + 1
            word = ""
    return counts


def draw(rng):
    texts = ["", "Aa aA", "don't stop", "a1b2a"]
    while len(texts) < 24:
        words = rng.sample(WORDS, rng.randint(2, 6))
        text = "".join(rng.choice(words) + rng.choice(GAPS) for _ in range(rng.randint(3, 14)))
        if text not in texts:
            texts.append(text)
    return [{"args": [text], "expected": counted(text)} for text in texts]
