WORDS = ["", "x", "two words", " pad ", "a,b", 'say ""no""', "line\nbreak", "7.5", ",", '""']


def written(rng, field):
    text = field.replace('""', '"')
    if any(char in text for char in ',"\n') or rng.random() < 0.2:
        return '"' + text.replace('"', '""') + '"'
    return text


def draw(rng):
    rows = [
        {"args": [""], "expected": []},
        {"args": ["\n"], "expected": [[""]]},
        {"args": ["a,"], "expected": [["a", ""]]},
        {"args": ['""\n"a""b"\n'], "expected": [[""], ['a"b']]},
    ]
    texts = [row["args"][0] for row in rows]
    while len(rows) < 24:
        table = [[rng.choice(WORDS) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 4))]
        text = "\n".join(",".join(written(rng, field) for field in fields) for fields in table)
        if not text or text in texts or text.endswith("\n") or table[-1] == [""]:
            continue
        texts.append(text)
        text += rng.choice(["", "\n"])
        rows.append(
            {"args": [text], "expected": [[field.replace('""', '"') for field in fields] for fields in table]}
        )
    return rows
