import re
from collections import Counter


def word_counts(text):
    return dict(Counter(re.findall("[a-z]+", text.lower())))
