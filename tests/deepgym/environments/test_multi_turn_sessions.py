"""The built-in multi-turn environments in real sessions: what references, shortcuts and attempts are worth."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import ToolCall, list_multi_turn_environments, load_multi_turn_environment

pytestmark = pytest.mark.local_sandbox

Play = Callable[..., RunResult]
SEEDS = (None, 1, 2**63 - 1)


@pytest.fixture(scope="module")
def dg(local_sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeepGym]:
    folder = str(tmp_path_factory.mktemp("slots"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.providers.local.slots._directory", lambda: folder)
        with DeepGym(slots=2) as client:
            yield client


@pytest.fixture
def play(dg: DeepGym) -> Play:
    """``play(name, *actions)``: the result of an episode with these actions. Each must end well."""

    def run(name: str, *actions: object, seed: int | None = None, may_fail: bool = False) -> RunResult:
        _needs(name)
        with dg.session(name, seed=seed) as session:
            session.reset()
            for action in actions:
                seen = session.step(action)
                assert may_fail or seen.exit_code in (0, None), seen.text
            return session.score()

    return run


def _needs(name: str) -> None:
    for program in load_multi_turn_environment(name).requires:
        if shutil.which(program, path="/usr/bin:/bin") is None:
            pytest.skip(f"{program} isn't installed")


def reference(name: str, *changes: tuple[str, str]) -> ToolCall:
    """The reference's one working step, with pieces of it replaced."""
    (call, _) = load_multi_turn_environment(name).reference or ()
    ((argument, text),) = call.arguments.items()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return ToolCall(name=call.name, arguments={argument: text})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list_multi_turn_environments())
def test_a_reference_scores_one_whatever_the_seed(play: Play, name: str, seed: int | None) -> None:
    environment = load_multi_turn_environment(name)
    assert environment.reference is not None
    result = play(name, *environment.reference, seed=seed)
    assert [case.message for case in result.cases if not case.passed] == []
    assert (result.score, result.passed, result.has_verdict) == (1.0, True, True)
    assert result.seed == (environment.seed if seed is None else seed)


LAZY = {
    "fix_the_program": {
        "touch": "echo '# checked' >> invoice.py",
        "claim": "echo 'print(\"all tests passed\")' > test_invoice.py; touch PASSED; echo 1.0 > score",
        "no tests": "rm test_invoice.py",
        "constants": 'for f in parse_amount line_total split due_date; do echo "def $f(*a): return 0"; done > invoice.py',
        "refuse everything": 'for f in parse_amount line_total split due_date; do echo "def $f(*a): raise ValueError"; done'
        " > invoice.py",
        "what the tests show": """cat > invoice.py <<'END'
SHOWN = {("1,234.50",): 123450, (" 12 ",): 1200, ("-3.05",): -305, (3, 250, 0): 750, (1, 250, 1): 248}
SHOWN.update({("2024-01-31", "net 1"): "2024-02-01", ("2024-03-12", "eom"): "2024-04-01"})
def parse_amount(*arguments):
    if arguments in SHOWN:
        return SHOWN[arguments]
    raise ValueError
line_total = due_date = parse_amount
def split(total, weights):
    return {"[1, 1]": [50, 50], "[2, 1]": [67, 33]}[str(weights)]
END
python3 -m unittest""",
        "equal to everything": """cat > invoice.py <<'END'
class Any(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
def parse_amount(*arguments): return Any()
line_total = split = due_date = parse_amount
END""",
        "end early": "echo 'import os; os._exit(0)' > invoice.py",
    },
    "log_analysis": {
        "an empty object": "echo '{}' > answers.json",
        "the log itself": "cp logs/access.log answers.json",
        "counted lines": 'echo "{\\"requests\\": $(zcat -f logs/* | wc -l), \\"clients\\": 100}" > answers.json',
        "nothing but true": 'echo \'{"requests": true, "clients": true, "intruder": true, "dead_paths": []}\' > answers.json',
        "another log": 'for f in logs/*; do echo > $f; done; echo \'{"requests": 0, "clients": 0}\' > answers.json',
    },
    "git_repository": {
        "the newest commit": "cd textkit; git commit -q --allow-empty -m x; git rev-parse HEAD > ../culprit.txt",
        "all commits": "git -C textkit log --format=%H > culprit.txt",
        "the tag": "git -C textkit rev-parse v1.0 > culprit.txt; git -C textkit reset -q --hard v1.0",
        "v1.0 again": "cd textkit; git checkout -q v1.0 -- .; git mv -f duration.py src/duration.py; git commit -qam x",
        "the other branch": "cd textkit; git merge -q -m x experiment; git rev-parse experiment > ../culprit.txt",
        "a history of its own": "cd textkit; rm -rf .git; git init -q; git config user.email a@b; git config user.name a;"
        " git add .; git commit -qm x",
    },
    "data_cleanup": {
        "the raw files": "cat raw/shop_a.csv > clean.csv; cat raw/shop_b.csv > rejected.txt",
        "the header alone": "echo order,date,customer,grams,cents,currency > clean.csv; touch rejected.txt",
        "the header and the raw rows": "echo order,date,customer,grams,cents,currency > clean.csv;"
        " cat raw/shop_b.csv | tr ';' ',' >> clean.csv",
        "everything rejected": "grep -o 'A-[0-9]*' raw/shop_a.csv | sort -u > rejected.txt",
        "the same raw file again": "rm raw/*; echo order,rev > raw/shop_a.csv; cp raw/shop_a.csv clean.csv",
    },
    "http_service": {
        "a file server": "echo 'import http.server, sys; http.server.test(port=int(sys.argv[1]))' > service.py",
        "not found": """cat > service.py <<'END'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_PUT = do_POST = do_DELETE = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
END""",
        "an end": "echo 'print(\"200 OK\")' > service.py",
        "modules of its own": "mkdir http; echo > http/__init__.py; echo 'HTTPConnection = HTTPException = 1/0' > http/client.py;"
        " echo 'raise SystemExit' | tee stringprep.py socket.py sitecustomize.py > service.py",
    },
    "refactor": {
        "touch": "for f in depot/*.py; do echo '# in order' >> $f; done",
        "copies": "cp depot/util.py depot/pricing.py; cp depot/core.py depot/stock.py; cp depot/core.py depot/orderbook.py",
        "other names for the same": "echo 'from depot.util import calc as line_total, fmt as format_cents' > depot/pricing.py",
        "sed": "sed -i 's/qty/quantity/g; s/calc/line_total/g; s/fmt/format_cents/g' depot/*.py tests/*.py",
        "stubs": "rm depot/util.py; printf 'def line_total(): pass\\ndef format_cents(): pass\\n' > depot/pricing.py",
        "compiled": "python3 -m compileall -q -b depot; rm depot/*.py",
    },
}
for shortcuts in LAZY.values():
    shortcuts.update({"nothing": "true", "delete everything": "rm -rf * .[!.]*"})


@pytest.mark.parametrize(("name", "shortcut"), [(name, item) for name in LAZY for item in LAZY[name]])
def test_a_shortcut_earns_at_most_a_tenth_and_has_a_verdict(play: Play, name: str, shortcut: str) -> None:
    result = play(name, LAZY[name][shortcut], may_fail=True)
    assert result.has_verdict
    assert result.score <= 0.1
    assert not result.passed


def test_every_environment_has_shortcuts_to_try() -> None:
    assert set(LAZY) == set(list_multi_turn_environments())
    assert all(len(shortcuts) >= 5 for shortcuts in LAZY.values())


PARTIAL: dict[str, tuple[str, float, Callable[[], tuple[object, ...]]]] = {
    "one function of four": (
        "fix_the_program",
        0.25,
        lambda: (
            "cp invoice.py broken.py",
            reference("fix_the_program"),
            "echo 'from broken import due_date, line_total, split' >> invoice.py",
        ),
    ),
    "one answer of eight": (
        "log_analysis",
        0.125,
        lambda: (
            reference(
                "log_analysis", ("json.dump(answers, target", "json.dump({'requests': len(rows)}, target")
            ),
        ),
    ),
    "floats and more than was asked": (
        "log_analysis",
        1.0,
        lambda: (
            reference(
                "log_analysis", ('"requests": len(rows)', '"remark": None, "requests": float(len(rows))')
            ),
        ),
    ),
    "four answers of eight": (
        "log_analysis",
        0.5,
        lambda: (
            reference(
                "log_analysis",
                ("for index, ms in enumerate(times, 1)", "for index, ms in enumerate(times, 20)"),
            ),
            "python3 -c \"import json; a = json.load(open('answers.json')); a['requests'] += 3; a['clients'] += 1;"
            " a['top_paths'].reverse(); json.dump(a, open('answers.json', 'w'))\"",
        ),
    ),
    "the commit alone": (
        "git_repository",
        0.4,
        lambda: (reference("git_repository"), "git reset -q --hard HEAD~1"),
    ),
    "the repair alone": ("git_repository", 0.6, lambda: (reference("git_repository"), "rm ../culprit.txt")),
    "a repair that isn't committed": (
        "git_repository",
        0.4,
        lambda: (reference("git_repository"), "git reset -q --soft HEAD~1"),
    ),
    "a repair in a history that was rewritten": (
        "git_repository",
        0.4,
        lambda: (reference("git_repository"), "git reset -q --hard $(git commit-tree -m x 'HEAD^{tree}')"),
    ),
    "a repair on the other branch too": (
        "git_repository",
        0.4,
        lambda: (reference("git_repository"), "git branch -f experiment main"),
    ),
    "a wrong list of the rejected": (
        "data_cleanup",
        0.8,
        lambda: (reference("data_cleanup"), "sed -i 1d rejected.txt"),
    ),
    "the rejected alone": ("data_cleanup", 0.2, lambda: (reference("data_cleanup"), "rm clean.csv")),
    "in memory": (
        "http_service",
        0.85,
        lambda: (
            reference(
                "http_service",
                (
                    "os.makedirs(FOLDER, exist_ok=True)",
                    "import shutil; shutil.rmtree(FOLDER, True); os.makedirs(FOLDER)",
                ),
            ),
        ),
    ),
    "without ETag": (
        "http_service",
        0.75,
        lambda: (reference("http_service", ("ETag=etag(value)", "Other=etag(value)")),),
    ),
    "values alone": (
        "http_service",
        0.25,
        lambda: (
            reference(
                "http_service",
                ("if wanted is not None and", "if False and"),
                ("return self.add(", "return self.answer("),
                ('parts == ["keys"]', 'parts == ["list"]'),
            ),
        ),
    ),
    "two steps of three": (
        "refactor",
        2 / 3,
        lambda: (reference("refactor"), "sed -i 's/quantity/qty/g' depot/*.py tests/*.py"),
    ),
    "three steps, and a run in four that differs": (
        "refactor",
        0.75,
        lambda: (
            reference("refactor"),
            "sed -i 's/json.dumps(result)/json.dumps([result])/' depot/__main__.py",
        ),
    ),
}


@pytest.mark.parametrize("attempt", PARTIAL)
def test_an_honest_attempt_earns_its_part(play: Play, attempt: str) -> None:
    name, score, actions = PARTIAL[attempt]
    result = play(name, *actions(), may_fail=True)
    assert result.has_verdict
    assert result.score == pytest.approx(score), [case.message for case in result.cases]


def test_a_table_with_one_shop_missing_earns_the_share_of_the_others(play: Play) -> None:
    result = play("data_cleanup", reference("data_cleanup", ('("raw/shop_b.csv"', '# ("raw/shop_b.csv"')))
    assert 0.4 < result.score < 0.6


def test_superfluous_lines_count_against_a_table(play: Play) -> None:
    result = play(
        "data_cleanup",
        reference("data_cleanup"),
        "for i in $(seq 300); do echo A-0,2,3,4,5,6; done >> clean.csv",
    )
    assert 0.5 < result.score < 0.7


@pytest.mark.parametrize("name", ["log_analysis", "git_repository", "data_cleanup"])
def test_the_answers_of_one_seed_are_worth_nothing_for_another(dg: DeepGym, play: Play, name: str) -> None:
    _needs(name)
    files = {
        "log_analysis": ["answers.json"],
        "git_repository": ["culprit.txt"],
        "data_cleanup": ["clean.csv", "rejected.txt"],
    }[name]
    with dg.session(name, seed=21) as session:
        session.reset()
        session.step(reference(name))
        session.step("cd /box/work")
        answers = {
            file: session.step({"name": "read_file", "arguments": {"path": file}}).text for file in files
        }
        assert all(answers.values())
    writes = [
        {"name": "write_file", "arguments": {"path": path, "content": text}} for path, text in answers.items()
    ]
    assert play(name, *writes, seed=22).score <= 0.1


@pytest.mark.parametrize("name", list_multi_turn_environments())
def test_the_set_up_leaves_nothing_but_the_task(dg: DeepGym, name: str) -> None:
    _needs(name)
    with dg.session(name) as session:
        assert session.reset().text == load_multi_turn_environment(name).task
        seen = session.step("ls -A /tmp $HOME; env; cat /proc/*/environ | tr '\\0' '\\n'; ls -A /box")
        assert "DEEPGYM" not in seen.text
        assert "verify" not in seen.text
        assert "make_" not in seen.text


RUBBISH = """
mkfifo fifo; ln -s / root; ln -s loop loop; mkdir -p shut deep/$(printf 'd/%.0s' {1..100})
printf x > $'new\\nline'; printf x > $'\\xff\\xfe'; head -c 3000000 /dev/zero > big; chmod 000 big shut
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
for i in $(seq 300); do echo 'raise SystemExit' > unused_$i.txt; done
"""


@pytest.mark.parametrize("name", list_multi_turn_environments())
def test_rubbish_in_the_work_directory_changes_nothing(play: Play, name: str) -> None:
    assert play(name, reference(name), "cd /box/work", RUBBISH, may_fail=True).score == 1.0
    result = play(name, RUBBISH, may_fail=True)
    assert (result.has_verdict, result.score, result.error_type) == (True, 0.0, None)


HOSTILE = {
    "a bomb of brackets": ("log_analysis", "python3 -c \"print('[' * 60000)\" > answers.json"),
    "a number too long to read": (
        "log_analysis",
        "python3 -c \"print('{\\\"requests\\\": ' + '9' * 20000 + ', \\\"clients\\\": NaN}')\" > answers.json",
    ),
    "bytes that are no text": ("log_analysis", "head -c 5000 /dev/urandom > answers.json"),
    "an answer that is a pipe": ("log_analysis", "mkfifo answers.json"),
    "an answer that is a link": ("log_analysis", "ln -s /etc/passwd answers.json"),
    "an answer that is a folder": ("log_analysis", "mkdir answers.json"),
    "a table of zeros": (
        "data_cleanup",
        "(echo order,date,customer,grams,cents,currency; head -c 200000 /dev/zero) > clean.csv",
    ),
    "a field without an end": (
        "data_cleanup",
        "(echo order,date,customer,grams,cents,currency; echo '\"'; yes abcdefgh | head -20000) > clean.csv",
    ),
    "pipes": ("data_cleanup", "mkfifo clean.csv rejected.txt"),
    "a table that is too long": (
        "data_cleanup",
        "head -c 2000000 /dev/zero | tr '\\0' a > clean.csv; cp clean.csv rejected.txt",
    ),
    "objects that are no objects": (
        "git_repository",
        "find textkit/.git/objects -type f | xargs chmod +w; "
        "for f in $(find textkit/.git/objects -type f); do echo hello > $f; done; git -C textkit rev-parse main",
    ),
    "refs that are pipes": (
        "git_repository",
        "rm textkit/.git/refs/heads/main; mkfifo textkit/.git/refs/heads/main culprit.txt",
    ),
    "refs that are no text": (
        "git_repository",
        "printf '\\xff\\xfe' > textkit/.git/refs/heads/main; cp textkit/.git/refs/heads/main culprit.txt",
    ),
    "a module that ends the process": (
        "git_repository",
        "cd textkit; echo 'import os; os._exit(0)' > src/duration.py; git commit -qam x",
    ),
    "a module that answers itself": (
        "git_repository",
        "cd textkit; echo 'import json, os; os.write(1, json.dumps([[\"gave\", 0]] * 300).encode()); os._exit(0)'"
        " > src/duration.py; git commit -qam x",
    ),
    "a module that isn't text": (
        "git_repository",
        "cd textkit; head -c 3000 /dev/urandom > src/duration.py; git commit -qam x",
    ),
    "a link for a folder": (
        "git_repository",
        "cd textkit; mv src ../s; ln -s ../s src; git add -A; git commit -qam x",
    ),
    "sources that can't be parsed": (
        "refactor",
        "printf '\\xff(((' > tests/a.py; python3 -c \"print('-' * 60000 + '1')\" > tests/b.py",
    ),
    "a thousand sources": ("refactor", "for i in $(seq 1000); do echo 'qty = 1' > tests/t$i.py; done"),
    "a module that never ends": ("refactor", "echo 'while True: pass' >> depot/__main__.py"),
    "garbage on the port": (
        "http_service",
        'echo \'import socket, sys\ns = socket.create_server(("127.0.0.1", int(sys.argv[1])))\nwhile True:\n'
        '    c, _ = s.accept(); c.send(b"\\xff" * 100000); c.close()\' > service.py',
    ),
    "headers that never end": (
        "http_service",
        'echo \'import socket, sys\ns = socket.create_server(("127.0.0.1", int(sys.argv[1])))\nwhile True:\n'
        '    c, _ = s.accept(); c.send(b"HTTP/1.1 200 OK\\r\\n" + b"a: b\\r\\n" * 9000); c.close()\' > service.py',
    ),
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_work_directory_gets_its_verdict(play: Play, trick: str) -> None:
    name, command = HOSTILE[trick]
    result = play(name, command, may_fail=True)
    assert (result.has_verdict, result.score, result.error_type) == (True, 0.0, None)


def test_a_repaired_repository_may_be_packed_and_its_configuration_hostile(play: Play) -> None:
    hostile = """
git gc -q --aggressive --prune=now
for key in core.fsmonitor core.sshCommand core.pager core.editor diff.external; do git config $key 'echo x > /box/ran'; done
git config alias.cat-file '!echo x > /box/ran'; git config core.hooksPath $PWD; git config filter.x.smudge false
git config core.attributesFile $PWD/a; echo '* filter=x' > a; printf '[include]\\n path = /proc/self/environ\\n' >> .git/config
find .git/objects -type f | head
"""
    assert play("git_repository", reference("git_repository"), hostile, may_fail=True).score == 1.0


def test_a_commit_may_be_a_merge_of_a_repair(play: Play) -> None:
    merge = "git branch repair; git reset -q --hard HEAD~1; git merge -q --no-ff -m merged repair; git log --oneline -3"
    assert play("git_repository", reference("git_repository"), merge).score == 1.0


def test_a_replaced_object_is_seen_as_what_it_is(play: Play) -> None:
    replace = "git reset -q --hard HEAD~1; git replace HEAD ORIG_HEAD; git commit -q --allow-empty -m x"
    assert play("git_repository", reference("git_repository"), replace).score == 0.4


def test_a_service_that_talks_much_is_none_the_worse(play: Play) -> None:
    chatty = reference("http_service", ("        pass\n", "        print('x' * 20000, flush=True)\n"))
    assert play("http_service", chatty).score == 1.0
