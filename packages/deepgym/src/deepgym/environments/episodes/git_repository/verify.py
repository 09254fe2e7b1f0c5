"""Reads the repository itself, object by object: what decides is content whose hash was checked here.

Git is only asked, in the sandbox of the agent's work, for objects that stand in packs.
"""

import base64
import hashlib
import json
import os
import re
import zlib

import make_repository
from deepgym_verify import rng, seed

GIT = "textkit/.git"
HASH = re.compile("[0-9a-f]{40}")
MAX_OBJECT, MAX_COMMITS, MAX_SOURCES = 1 << 18, 500, 20

# Prints all that is reachable from main, packed or not; hooks and programs of the agent's configuration could
# run meanwhile, but not change what a hash stands for.
DUMP = """
import base64, os, subprocess, sys, zlib
git = ["git", "--no-replace-objects", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"]
git += ["--git-dir", sys.argv[1]]
listed = subprocess.run([*git, "rev-list", "--objects", "refs/heads/main"], stdout=subprocess.PIPE).stdout
names = b"".join(line[:40] + b"\\n" for line in listed.split(b"\\n") if len(line) >= 40)
data = subprocess.run([*git, "cat-file", "--batch"], input=names, stdout=subprocess.PIPE).stdout
print(base64.b64encode(zlib.compress(data)).decode())
"""

# Calls the committed module; what it prints itself goes elsewhere.
CALL = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
import duration
found = []
for name, arguments in json.load(sys.stdin):
    try:
        found.append(["gave", getattr(duration, name)(*arguments)])
    except Exception as error:
        found.append(["raised", type(error).__name__])
json.dump(found, out)
out.flush()
"""


class Objects:
    """Objects of the agent's repository by their hashes."""

    def __init__(self, work):
        self._work, self._packed = work, None

    def get(self, number, kind):
        """An object's content. Raises ``LookupError`` if there is none of that hash and kind."""
        data = self._loose(number)
        if data is None:
            if self._packed is None:
                self._packed = self._dumped()
            data = self._packed.get(number, b"")
        head, _, content = data.partition(b"\0")
        if hashlib.sha1(data).hexdigest() != number or head != b"%s %d" % (kind, len(content)):
            raise LookupError("%s %s isn't there" % (kind.decode(), number))
        return content

    def _loose(self, number):
        try:
            data = self._work.read("%s/objects/%s/%s" % (GIT, number[:2], number[2:]), limit=MAX_OBJECT)
            return zlib.decompressobj().decompress(data, MAX_OBJECT)
        except (OSError, zlib.error):
            return None

    def _dumped(self):
        ran = self._work.run(["python3", "-I", "-S", "-c", DUMP, GIT], limit=1 << 19)
        try:
            data = zlib.decompressobj().decompress(base64.b64decode(ran.stdout), 1 << 23)
        except (ValueError, zlib.error):
            return {}
        found = {}
        # Each object: its hash, kind and size on a line, then its content and a newline.
        while data:
            head, _, data = data.partition(b"\n")
            words = head.split()
            if len(words) != 3 or not words[2].isdigit() or len(words[2]) > 9:
                break
            size = int(words[2])
            content = data[:size]
            found[words[0].decode("latin-1")] = b"%s %d\0%s" % (words[1], size, content)
            data = data[size + 1 :]
        return found

    def parents(self, number):
        lines = self.get(number, b"commit").split(b"\n\n")[0].split(b"\n")
        return [line[7:].decode("latin-1") for line in lines if line.startswith(b"parent ")]

    def tree(self, number):
        """The entries of a tree: ``{name: (mode, hash)}``."""
        data, found = self.get(number, b"tree"), {}
        while data:
            head, _, data = data.partition(b"\0")
            mode, _, name = head.partition(b" ")
            found[name.decode("latin-1")] = (mode, data[:20].hex())
            data = data[20:]
        return found


def ref(work, name):
    """The hash that a ref holds, or ``None``."""
    try:
        found = work.text("%s/%s" % (GIT, name), limit=200).strip()
    except OSError:
        try:
            lines = work.text(GIT + "/packed-refs").split("\n")
        except OSError:
            return None
        found = next((line[:40] for line in lines if line[41:] == name), "")
    return found if HASH.fullmatch(found) else None


def history_problem(work, objects, repository):
    for name in ("refs/heads/experiment", "refs/tags/v1.0"):
        if ref(work, name) != repository.refs[name]:
            return "%s was changed" % name
    tip = repository.refs["refs/heads/main"]
    main = ref(work, "refs/heads/main")
    if main is None or main == tip:
        return "main has no new commit"
    seen, waiting = set(), [main]
    while waiting and len(seen) < MAX_COMMITS:
        number = waiting.pop(0)
        if number == tip:
            return None
        if number not in seen:
            seen.add(number)
            waiting += objects.parents(number)
    return "the old main isn't in the history of the new one"


def sources(work, objects):
    """The modules in ``src`` of what is committed on main."""
    main = ref(work, "refs/heads/main")
    root = objects.get(main, b"commit").split(b"\n")[0][5:].decode("latin-1")
    mode, folder = objects.tree(root)["src"]
    if mode != b"40000":
        raise LookupError("src is no folder")
    found = {}
    for name, (mode, number) in objects.tree(folder).items():
        if mode in (b"100644", b"100755") and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\.py", name):
            found[name] = objects.get(number, b"blob").decode()
    if "duration.py" not in found or len(found) > MAX_SOURCES:
        raise LookupError("src/duration.py isn't there")
    return found


def show(seconds):
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return " ".join("%d%s" % part for part in parts if part[0]) or "0s"


def clock(seconds):
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


def spoken(seconds):
    words = {"h": "hour", "m": "minute", "s": "second"}
    parts = [(part[:-1], words[part[-1]]) for part in show(seconds).split()]
    return ", ".join(number + " " + word + ("" if number == "1" else "s") for number, word in parts)


def calls():
    """Calls, and what each of them must give."""
    for _ in range(25):
        sizes = [(rng.randint(0, 99), rng.choice("hms")) for _ in range(rng.randint(0, 4))]
        texts = ["%d%s" % size for size in sizes]
        seconds = [number * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in sizes]
        yield "parse", [" ".join(texts)], sum(seconds)
        yield "total", [texts + texts[:1]], sum(seconds) + sum(seconds[:1])
        length, step = rng.choice((rng.randint(0, 99), rng.randint(0, 10**6))), rng.choice((60, 300, 7, 1))
        yield "show", [length], show(length)
        yield "clock", [length], clock(length)
        yield "from_clock", [clock(length)], length
        yield "spoken", [length], spoken(length)
        yield "round_up", [length], step, -(-length // step) * step
        yield "round_up", [length * step], step, length * step
        if texts:
            yield "longest", [texts], texts[seconds.index(max(seconds))]
        yield "share", ["%ds" % length, "7m 13s"], 100 * length // 433
    for text in ("1x", "h", "5", "1h 2", "-1h", "1h30m"):
        yield "parse", [text], ValueError


def behaviour_problem(work, modules):
    folder = "committed-" + os.urandom(8).hex()
    asked, wanted = [], []
    for name, arguments, *rest in calls():
        asked.append([name, arguments + rest[:-1]])
        wanted.append(["raised", "ValueError"] if rest[-1] is ValueError else ["gave", rest[-1]])
    ran = work.run(
        ["python3", "-I", "-S", "-B", "-c", CALL, folder],
        stdin=json.dumps(asked),
        limit=1 << 18,
        files={"%s/%s" % (folder, name): text for name, text in modules.items()},
    )
    try:
        found = json.loads(ran.stdout)
        if type(found) is not list or len(found) != len(wanted):
            return "the committed module can't be called"
        for call, given, right in zip(asked, found, wanted):
            if json.dumps(given) != json.dumps(right):
                return "%s%r gave %.80r" % (call[0], tuple(call[1]), given)
    except (ValueError, RecursionError):
        return "the committed module can't be called"
    return None


def main_problem(work, repository):
    objects = Objects(work)
    try:
        return history_problem(work, objects, repository) or behaviour_problem(work, sources(work, objects))
    except LookupError as error:
        return "main can't be read: %s" % error
    except UnicodeDecodeError:
        return "src holds a module that isn't UTF-8"


def culprit_problem(work, repository):
    try:
        found = work.text("culprit.txt", limit=200).strip()
    except OSError:
        return "there is no culprit.txt that can be read"
    return None if found == repository.culprit else "not the commit that introduced the bug"


def verify(work):
    repository = make_repository.Repository(seed)
    problems = {
        "culprit": (0.4, culprit_problem(work, repository)),
        "main": (0.6, main_problem(work, repository)),
    }
    cases = [
        {"name": name, "passed": problem is None, "message": problem or ""}
        for name, (_, problem) in problems.items()
    ]
    score = sum((weight for weight, problem in problems.values() if problem is None), 0.0)
    return {"score": score, "passed": score == 1.0, "cases": cases}
