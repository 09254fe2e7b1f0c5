from collections import Counter


def min_window(text, needed):
    missing, left = Counter(needed), len(needed)
    best, start = "", 0
    for end, char in enumerate(text, 1):
        left -= missing[char] > 0
        missing[char] -= 1
        while needed and left == 0:
            if not best or end - start < len(best):
                best = text[start:end]
            missing[text[start]] += 1
            left += missing[text[start]] > 0
            start += 1
    return best
