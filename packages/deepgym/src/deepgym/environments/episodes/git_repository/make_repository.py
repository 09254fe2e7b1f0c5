"""Makes the repository of a seed, object by object, so that its hashes don't depend on git's version.

The verifier imports the same file to know what stands in it.
"""

import hashlib
import os
import random
import subprocess
import zlib

HEAD = '''"""Durations as numbers of seconds and as texts."""

UNITS = {"h": 3600, "m": 60, "s": 1}
'''

# Of every function: its name, its signature, the same with types, two docstrings, and three bodies: the first
# one, one that does the same, and one that doesn't.
FUNCTIONS = (
    (
        "parse",
        "text",
        "text: str) -> int",
        ("Seconds of a text.", 'Seconds of a duration such as "1h 30m". ``ValueError`` if it isn\'t one.'),
        """    total = 0
    for part in text.split():
        number, unit = part[:-1], part[-1]
        if unit not in UNITS or not number.isdigit():
            raise ValueError("not a duration: %r" % text)
        total += int(number) * UNITS[unit]
    return total
""",
        """    parts = [(part[-1], part[:-1]) for part in text.split()]
    if not all(unit in UNITS and number.isdigit() for unit, number in parts):
        raise ValueError("not a duration: %r" % text)
    return sum(int(number) * UNITS[unit] for unit, number in parts)
""",
        """    parts = {part[-1]: part[:-1] for part in text.split()}
    if not all(unit in UNITS and number.isdigit() for unit, number in parts.items()):
        raise ValueError("not a duration: %r" % text)
    return sum(int(number) * UNITS[unit] for unit, number in parts.items())
""",
    ),
    (
        "show",
        "seconds",
        "seconds: int) -> str",
        ("Text of a duration.", 'A duration as text, the largest unit first: "1h 30m".'),
        """    parts = []
    for unit, size in UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append("%d%s" % (count, unit))
    return " ".join(parts) or "0s"
""",
        """    counts = []
    for size in UNITS.values():
        counts.append(seconds // size)
        seconds %= size
    return " ".join("%d%s" % pair for pair in zip(counts, UNITS) if pair[0]) or "0s"
""",
        """    counts = [seconds // size % 60 for size in UNITS.values()]
    return " ".join("%d%s" % pair for pair in zip(counts, UNITS) if pair[0]) or "0s"
""",
    ),
    (
        "total",
        "texts",
        "texts: list) -> int",
        (
            "Seconds of several texts.",
            "Seconds of several durations together, each a text that ``parse`` takes.",
        ),
        """    seconds = 0
    for text in texts:
        seconds += parse(text)
    return seconds
""",
        """    return sum(map(parse, texts))
""",
        """    return sum(set(map(parse, texts)))
""",
    ),
    (
        "round_up",
        "seconds, step",
        "seconds: int, step: int) -> int",
        ("Round to a multiple.", "The smallest multiple of ``step`` that isn't below ``seconds``."),
        """    rest = seconds % step
    if rest:
        seconds += step - rest
    return seconds
""",
        """    return -(-seconds // step) * step
""",
        """    return (seconds // step + 1) * step
""",
    ),
    (
        "clock",
        "seconds",
        "seconds: int) -> str",
        ("Time of a clock.", 'A duration as a clock shows it: "1:02:03", hours first.'),
        """    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return "%d:%02d:%02d" % (hours, minutes, seconds)
""",
        """    hours, rest = divmod(seconds, 3600)
    return "%d:%02d:%02d" % (hours, rest // 60, rest % 60)
""",
        """    hours, rest = divmod(seconds, 3600)
    return "%d:%s:%02d" % (hours, rest // 60, rest % 60)
""",
    ),
)
EXAMPLES = {
    "parse": "parse('10m 20m') == 1800",
    "show": "show(360000) == '100h'",
    "total": "total(['5m', '1h', '5m']) == 4200",
    "round_up": "round_up(900, 300) == 900",
    "clock": "clock(3661) == '1:01:01'",
}
FEATURES = (
    '''def longest(texts):
    """The longest of several durations, as it was written; the first of equally long ones."""
    return max(texts, key=parse)
''',
    '''def spoken(seconds):
    """A duration in words: "1 hour, 2 minutes"."""
    words = {"h": "hour", "m": "minute", "s": "second"}
    parts = [(part[:-1], words[part[-1]]) for part in show(seconds).split()]
    return ", ".join("%s %s%s" % (number, word, "" if number == "1" else "s") for number, word in parts)
''',
    '''def from_clock(text):
    """Seconds of a text that ``clock`` made."""
    hours, minutes, seconds = map(int, text.split(":"))
    return hours * 3600 + minutes * 60 + seconds
''',
    '''def share(part, whole):
    """Per cent that the duration ``part`` is of ``whole``, both texts, rounded down."""
    return 100 * parse(part) // parse(whole)
''',
)
REWRITE = """def parse(text):
    raise NotImplementedError("a parser with a grammar, one day")
"""
TEST = """import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / name) for name in ("src", ".")]
import duration


class DurationTest(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(duration.parse("1h 30m"), 5400)

    def test_show(self):
        self.assertEqual(duration.show(5400), "1h 30m")
"""
PEOPLE = ("Ada Quist <ada@example.org>", "Bo Larsen <bo@example.org>", "Cleo Marsh <cleo@example.org>")
TIDY = ("Tidy up", "Tidy up a little", "Clean-up", "Minor clean-up", "Shorter code", "Fewer lines")


class State:
    """What stands in the working tree at one commit."""

    def __init__(self):
        self.bodies = {function[0]: function[4] for function in FUNCTIONS}
        self.features, self.typed, self.documented, self.path = [], False, False, "duration.py"
        self.files = {
            "README.md": "# textkit\n\nDurations and, one day, more.\n",
            ".gitignore": "__pycache__/\n",
        }

    def module(self):
        blocks = [HEAD]
        for name, plain, typed, docs, *_ in FUNCTIONS:
            signature = typed if self.typed else plain + ")"
            docstring = docs[self.documented]
            blocks.append('def %s(%s:\n    """%s"""\n%s' % (name, signature, docstring, self.bodies[name]))
        return "\n\n".join(blocks + self.features)

    def tree(self):
        return {**self.files, self.path: self.module()}


class Repository:
    """The objects, by hash, and the refs of a seed's repository; ``culprit`` is the hash to be found."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.objects, self.refs = {}, {}
        self.broken, *_, self.repaired_body, self.broken_body = rng.choice(FUNCTIONS)
        self._rng, self._second, self._tip = rng, 1700000000 + rng.randint(0, 10**7), None
        state = self._state = State()
        self._commit("Durations")
        state.files["tests/test_duration.py"] = TEST
        self._commit("First tests")
        state.files["README.md"] += "\nRun the tests with `python3 -m unittest discover tests`.\n"
        self.refs["refs/tags/v1.0"] = self._commit("Say how to test")
        self.culprit = None
        steps = [*FUNCTIONS, *FEATURES, "types", "docs", "move", "readme", "changes"]
        rng.shuffle(steps)
        branch = rng.randint(3, 9)
        for number, step in enumerate(steps):
            message = self._change(step)
            tip = self._commit(message)
            if isinstance(step, tuple) and step[0] == self.broken:
                self.culprit = tip
            if number == branch:
                fork = (tip, dict(state.tree()))
        self.refs["refs/heads/main"] = self._tip
        tree = {**fork[1], "grammar.py": REWRITE}
        self.refs["refs/heads/experiment"] = self._commit(
            "A parser with a grammar, unfinished", [fork[0]], tree
        )

    def _change(self, step):
        state, rng = self._state, self._rng
        if isinstance(step, tuple):
            state.bodies[step[0]] = step[6] if step[0] == self.broken else step[5]
            return rng.choice(TIDY)
        if step in FEATURES:
            state.features.append(step)
            return "Add " + step[4 : step.index("(")]
        if step == "types":
            state.typed = True
            return "Type hints"
        if step == "docs":
            state.documented = True
            return "Better docstrings"
        if step == "move":
            state.path = "src/duration.py"
            return "Move the module to src"
        name, text = {
            "readme": ("README.md", state.files["README.md"] + "\nPython 3.8 or newer.\n"),
            "changes": ("CHANGES.md", "# Changes\n\n- 1.0: durations\n"),
        }[step]
        state.files[name] = text
        return "Update " + name

    def _commit(self, message, parents=None, files=None):
        if parents is None:
            parents = [self._tip] if self._tip else []
        self._second += self._rng.randint(600, 400000)
        who = "%s %d +0000" % (self._rng.choice(PEOPLE), self._second)
        tree = self._tree(files or self._state.tree())
        lines = [
            "tree " + tree,
            *("parent " + parent for parent in parents),
            "author " + who,
            "committer " + who,
        ]
        found = self._add("commit", ("\n".join(lines) + "\n\n" + message + "\n").encode())
        self._tip = found
        return found

    def _tree(self, files):
        entries, folders = [], {}
        for path, content in files.items():
            name, _, rest = path.partition("/")
            if rest:
                folders.setdefault(name, {})[rest] = content
            else:
                entries.append((name, "100644", self._add("blob", content.encode())))
        entries += [(name + "/", "40000", self._tree(below)) for name, below in folders.items()]
        entries.sort(key=lambda entry: entry[0].encode())
        data = b"".join(
            ("%s %s" % (mode, name.rstrip("/"))).encode() + b"\0" + bytes.fromhex(number)
            for name, mode, number in entries
        )
        return self._add("tree", data)

    def _add(self, kind, data):
        data = ("%s %d" % (kind, len(data))).encode() + b"\0" + data
        number = hashlib.sha1(data).hexdigest()
        self.objects[number] = data
        return number


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as target:
        target.write(data)


def main():
    repository = Repository(int(os.environ["DEEPGYM_SEED"]))
    environ = {**os.environ, "GIT_DEFAULT_HASH": "sha1"}

    def git(*words):
        subprocess.run(["git", *words], check=True, env=environ)

    git("init", "-q", "textkit")
    for number, data in repository.objects.items():
        write("textkit/.git/objects/%s/%s" % (number[:2], number[2:]), zlib.compress(data))
    for name, number in repository.refs.items():
        write("textkit/.git/" + name, number.encode() + b"\n")
    write("textkit/.git/HEAD", b"ref: refs/heads/main\n")
    git("-C", "textkit", "config", "user.name", "Agent")
    git("-C", "textkit", "config", "user.email", "agent@example.org")
    git("-C", "textkit", "reset", "-q", "--hard")
    with open("ISSUE.md", "w") as target:
        target.write(
            "# `%s` gives wrong results\n\nThis held at v1.0, and doesn't hold on main any more:\n\n    %s\n"
            % (repository.broken, EXAMPLES[repository.broken])
        )


if __name__ == "__main__":
    main()
