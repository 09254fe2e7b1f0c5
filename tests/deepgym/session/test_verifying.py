"""What a final verifier can do with an agent's work, and what the agent can't do to it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from deepgym.exceptions import SandboxError, TimeoutError, VerifierError
from deepgym.models import RunResult

pytestmark = pytest.mark.local_sandbox


@pytest.fixture
def verified(play: Callable[..., Any]) -> Callable[..., RunResult]:
    """``verified(body, *steps)``: the result where ``body`` is that of ``verify(work)``, after these steps.

    A step is a command, or a pair of a path and its content.
    """

    def run(body: str, *steps: str | tuple[str, str], **fields: Any) -> RunResult:
        agent = play("def verify(work):\n" + textwrap.indent(textwrap.dedent(body), "    "), **fields)
        for step in steps:
            seen = agent(step) if isinstance(step, str) else agent.write(*step)
            assert not seen.invalid
        found: RunResult = agent.score()
        return found

    return run


@pytest.fixture
def details(verified: Callable[..., RunResult]) -> Callable[..., Any]:
    """``details(body, *steps)``: what such a body returns."""

    def run(body: str, *steps: str | tuple[str, str], **fields: Any) -> Any:
        program = "def look():\n" + textwrap.indent(textwrap.dedent(body), "    ")
        program += "\nreturn {'passed': True, 'details': {'found': look()}}"
        result = verified(program, *steps, **fields)
        assert result.passed, (result.error_type, result.error, result.stderr, result.details)
        return result.details["found"]

    return run


RAISES = """
def raised(call, *arguments, **named):
    try:
        return repr(call(*arguments, **named))
    except Exception as error:
        return type(error).__name__
"""


def test_a_failed_assertion_is_a_zero_that_says_so(verified: Callable[..., RunResult]) -> None:
    result = verified("assert work.exists('done'), 'nothing is done'")
    assert (result.score, result.passed, result.has_verdict, result.error_type) == (0.0, False, True, None)
    assert result.details == {"assertion": "nothing is done"}


@pytest.mark.parametrize(
    ("returned", "score", "passed"),
    [
        ("None", 1.0, True),
        ("True", 1.0, True),
        ("False", 0.0, False),
        ("0.5", 0.5, False),
        ("1.0", 1.0, True),
        ("0", 0.0, False),
    ],
)
def test_what_a_verifier_returns_is_the_score(
    verified: Callable[..., RunResult], returned: str, score: float, passed: bool
) -> None:
    result = verified(f"work.files()\nreturn {returned}")
    assert (result.score, result.passed, result.has_verdict) == (score, passed, True)


def test_a_program_without_a_function_may_report_for_itself(play: Callable[..., Any]) -> None:
    agent = play(
        "from deepgym_verify import report, work\nreport(score=0.75, passed=False, metrics={'files': float(len(work.files()))})\n"
    )
    agent("touch a b")
    result = agent.score()
    assert (result.score, result.metrics) == (0.75, {"files": 2.0})


def test_the_verifiers_own_files_are_beside_it_and_never_the_agents(play: Callable[..., Any]) -> None:
    verify = "import helper\ndef verify(work):\n    work.files()\n    return helper.expected() == open('data/expected.txt').read() == 'secret'\n"
    agent = play(
        verify, verify_files={"helper.py": "def expected(): return 'secret'\n", "data/expected.txt": "secret"}
    )
    assert (
        "secret"
        not in agent(
            "find / -name 'expected*' 2>/dev/null; cat /box/helper.py; grep -rs secret /box /tmp; ls -A /box"
        ).text
    )
    assert agent.score().passed


# Reading.


def test_files_are_listed_and_read(details: Callable[..., Any]) -> None:
    found = details(
        """
        return [work.files(), [work.exists(p) for p in ("a", "d", "l", "d/b", "none", "../a")], work.size("a"),
                work.read("a").hex(), work.text("d/b"), work.text("bad"), work.read("empty").hex()]
        """,
        "printf one > a; mkdir d; printf 'żó' > d/b; ln -s a l; printf 'x\\xff' > bad; touch empty; mkfifo p",
    )
    assert found == [
        ["a", "bad", "d/b", "empty"],
        [True, False, False, True, False, False],
        3,
        b"one".hex(),
        "żó",
        "x\ufffd",
        "",
    ]


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("work.read, 'none'", "FileNotFoundError"),
        ("work.read, 'd'", "IsADirectoryError"),
        ("work.read, 'l'", "FileNotFoundError"),
        ("work.read, 'pipe'", "FileNotFoundError"),
        ("work.read, '../a'", "FileNotFoundError"),
        ("work.read, '/etc/passwd'", "FileNotFoundError"),
        ("work.read, 'a', 2", "OSError"),
        ("work.text, 'a', 2", "OSError"),
        ("work.text, 'none'", "FileNotFoundError"),
        ("work.size, 'none'", "FileNotFoundError"),
        ("work.size, 'd'", "IsADirectoryError"),
        ("work.read, 'big'", "OSError"),
    ],
)
def test_what_cant_be_read_raises_and_is_no_crash_where_it_is_handled(
    details: Callable[..., Any], call: str, raises: str
) -> None:
    steps = "printf one > a; mkdir d; ln -s a l; mkfifo pipe; head -c 2000000 /dev/zero > big"
    assert details(f"{RAISES}\nreturn raised({call})", steps) == raises


def test_the_copy_can_be_worked_on_as_a_path(details: Callable[..., Any]) -> None:
    found = details(
        """
        import os, pathlib
        path = work.path
        assert isinstance(path, pathlib.Path) and work.path == path
        return [sorted(str(p.relative_to(path)) for p in path.rglob("*")), (path / "l").read_text(),
                os.access(path / "run", os.X_OK), (path / "d" / "up").resolve().name, os.path.lexists(path / "out")]
        """,
        "printf one > a; mkdir d e; ln -s a l; ln -s ../a d/up; ln -s /etc/passwd out; ln -s ../../x d/out; printf x > run; chmod +x run; mkfifo p; chmod 000 a e",
    )
    assert found == [["a", "d", "d/up", "e", "l", "run"], "one", True, "a", False]


def test_links_of_an_agent_lead_a_verifier_to_nothing_of_its_own(play: Callable[..., Any]) -> None:
    verify = """
import os
def verify(work):
    found = []
    for name in sorted(os.listdir(work.path)):
        for path in (work.path / name, os.path.realpath(work.path / name)):
            try:
                with open(path) as file:
                    found.append(file.read())
            except OSError:
                pass
    return {"passed": "secret" not in "".join(found), "details": {"found": found}}
"""
    agent = play(verify, verify_files={"expected.txt": "secret"})
    agent(
        "ln -s /box/expected.txt a; ln -s ../expected.txt b; ln -s c//box/expected.txt c; mkdir d; ln -s d/../../expected.txt e;"
        " ln -s /proc/self/cwd/expected.txt f; ln -s . g; ln -s g/../expected.txt h; ln -s /box i; ln -s i/expected.txt j; echo mine > k"
    )
    result = agent.score()
    assert result.passed, result.details
    assert "mine\n" in result.details["found"]


def test_a_verifier_can_see_that_something_was_left_out(details: Callable[..., Any]) -> None:
    assert details("return work.left_out", "touch a; mkdir d; ln -s a l") == 0
    assert details("return work.left_out", "touch a; mkfifo p d; truncate -s 60G big", file_size=1 << 40) == 3


def test_a_large_tree_is_judged(verified: Callable[..., RunResult]) -> None:
    result = verified(
        "assert sum(work.size(p) for p in work.files()) == 60 << 20\nassert len(work.files()) == 3060\n"
        "assert sum(1 for _ in work.path.rglob('*')) >= 3060\nassert work.run(['sh', '-c', 'cat f* | wc -c']).stdout.strip() == str(60 << 20)",
        "for i in $(seq 60); do head -c 1048576 /dev/urandom > f$i; done; mkdir n; cd n; touch $(seq 3000)",
    )
    assert result.passed, (result.error, result.details)


def test_an_agent_that_fills_its_disk_cant_push_the_verifier_out_of_its_time(
    play: Callable[..., Any],
) -> None:
    """A verifier that ran out of time before its first look gives no verdict."""
    agent = play(verify=0.3, disk=64 << 20)
    agent("cat /dev/zero > full")
    assert agent.score().has_verdict


def test_nothing_is_counted_as_read_before_the_first_look(play: Callable[..., Any]) -> None:
    agent = play(
        "import time\nfrom deepgym_verify import work\ndef verify(w):\n    assert w is work\n    return True\n"
    )
    agent("true")
    with _Outcome() as found:
        found.append(agent.score())
    assert not found[0].has_verdict


class _Outcome:
    """What ``score`` gives where nothing was judged: a result, or an error that carries one."""

    def __enter__(self) -> list[RunResult]:
        self.found: list[RunResult] = []
        return self.found

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            return False
        result = getattr(error, "result", None)
        assert isinstance(result, RunResult)
        self.found.append(result)
        return True


# Running.


def test_commands_run_in_a_fresh_sandbox_on_the_copy(details: Callable[..., Any]) -> None:
    found = details(
        """
        one = work.run(["sh", "-c", "pwd; id -u; ls; cat a; echo err >&2; exit 3"])
        two = work.run(["cat"], stdin="żó in")
        three = work.run(["sh", "-c", "cat new/file; ls -A /tmp | wc -l"], files={"new/file": "put there"})
        return [one.stdout, one.stderr, one.exit_code, one.timed_out, one.cut, two.stdout, three.stdout]
        """,
        "echo one > a; touch /tmp/left ~/left; sleep 1000 &",
    )
    assert found == ["/box/work\n1000\na\none\n", "err\n", 3, False, False, "żó in", "put there0\n"]


def test_a_command_that_doesnt_end_is_killed_with_all_that_it_started(details: Callable[..., Any]) -> None:
    found = details(
        """
        ran = work.run(["sh", "-c", "echo begun; sleep 1000 & sleep 1000"], timeout=0.3)
        left = work.run(["sh", "-c", "ps -e -o stat=,comm= | grep -v ^Z | grep -c sleep"])
        return [ran.stdout, ran.timed_out, left.stdout]
        """,
        "true",
    )
    assert found == ["begun\n", True, "0\n"]


def test_output_of_a_command_is_bounded(details: Callable[..., Any]) -> None:
    found = details(
        "ran = work.run(['sh', '-c', 'seq 1 100000'], limit=100)\nreturn [len(ran.stdout), ran.cut, ran.exit_code]",
        "true",
    )
    assert found == [100, True, 0]


@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("work.run, ['no-such-program']", "FileNotFoundError"),
        ("work.run, ['./not-executable']", "PermissionError"),
        ("work.run, []", "IndexError"),
        ("work.run, ['cat'], files={'a/b/../../d': 'x'}", "IsADirectoryError"),
        ("work.function('none', 'f')", "ModuleNotFoundError"),
        ("work.function('mod', 'none')", "AttributeError"),
        ("work.function('mod', 'fails')", "ValueError"),
        ("work.function('mod', 'own')", "SolutionError"),
        ("work.function('mod', 'thing')", "TypeError"),
        ("work.function('broken', 'f')", "SyntaxError"),
        ("work.tcp, 1, b'x'", "ConnectionRefusedError"),
        ("work.http, 1", "ConnectionRefusedError"),
    ],
)
def test_what_cant_be_run_raises_what_a_verifier_can_handle(
    details: Callable[..., Any], call: str, raises: str
) -> None:
    found = details(
        f"{RAISES}\nreturn raised({call})",
        "touch not-executable; mkdir d a; mkdir a/b",
        (
            "mod.py",
            "class Own(Exception): pass\ndef fails(): raise ValueError('no')\ndef own(): raise Own('x')\ndef thing(): return object()\n",
        ),
        ("broken.py", "def f(:"),
    )
    # Exceptions whose constructors need more than a text come back by their name.
    assert found in (raises, "SolutionError" if raises == "UnicodeDecodeError" else raises)


def test_an_error_of_the_agents_code_that_isnt_handled_is_its_zero(
    verified: Callable[..., RunResult],
) -> None:
    result = verified("return work.function('mod', 'f')(1) == 2", ("mod.py", "def f(x): return 1 / 0\n"))
    assert (result.score, result.has_verdict, result.error_type) == (0.0, True, None)
    assert "ZeroDivisionError" in result.details["raised"]


def test_functions_are_called_with_plain_values(details: Callable[..., Any]) -> None:
    found = details(
        """
        f = work.function("pkg.mod", "f")
        g = work.function("pkg.mod", "C.g")
        return [f(1, y=[2.5, None]), f("żó", y={"a": True}), list(f((1, 2), y=b"x".hex())), g(3)]
        """,
        ("pkg/__init__.py", ""),
        (
            "pkg/mod.py",
            "def f(x, y): return [x, y]\nclass C:\n    @staticmethod\n    def g(n): return n + 1\n",
        ),
    )
    assert found == [[1, [2.5, None]], ["żó", {"a": True}], [[1, 2], "78"], 4]


SERVER = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("%s %s" % (self.command, self.path)).encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("X-Own", "yes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))[::-1]
        self.send_response(201)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments): pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_services_are_started_asked_and_stopped(details: Callable[..., Any]) -> None:
    found = details(
        """
        started = work.start(["python3", "server.py", "8000"], port=8000)
        get = work.http(8000, path="/a?b=1", headers={"X": "1"})
        none = work.http(8000, path="/none")
        post = work.http(8000, "POST", body=b"abc")
        bytes_ = work.tcp(8000, b"GET /x HTTP/1.0\\r\\n\\r\\n")
        started.stop()
        again = work.start(["python3", "server.py", "8000"], port=8000)
        return [get.status, get.text(), get.headers["x-own"], none.status, post.status, post.body.decode(),
                bytes_.startswith(b"HTTP/1.0 200"), again is not None, work.http(8000).status]
        """,
        ("server.py", SERVER),
    )
    assert found == [200, "GET /a?b=1", "yes", 404, 201, "cba", True, True, 200]


@pytest.mark.parametrize(
    ("server", "asked", "raises"),
    [
        ("import time; time.sleep(1000)", "work.start, ['python3', 's.py'], 8000, 0.3", "None"),
        ("raise SystemExit(1)", "work.start, ['python3', 's.py'], 8000", "None"),
        ("", "work.start, ['no-such-program']", "FileNotFoundError"),
        ("accept-and-hang", "work.http, 8000, timeout=0.3", "TimeoutError"),
        ("accept-and-hang", "work.tcp, 8000, b'x', timeout=0.3", "TimeoutError"),
        ("accept-and-close", "work.http, 8000", "ConnectionError"),
        ("accept-and-babble", "work.http, 8000", "ConnectionError"),
        ("accept-and-flood", "work.tcp, 8000, b'x', limit=1000", None),
    ],
)
def test_a_service_that_is_none_is_told(
    details: Callable[..., Any], server: str, asked: str, raises: str | None
) -> None:
    if server.startswith("accept"):
        do = {
            "hang": "held.append(c)",
            "close": "c.recv(100); c.close()",
            "babble": "c.recv(100); c.sendall(b'what?' * 20000); c.close()",
            "flood": "\n    try:\n        while True: c.sendall(b'x' * 65536)\n    except OSError: pass",
        }[server.rpartition("-")[2]]
        server = f"import socket\nheld = []\ns = socket.create_server(('127.0.0.1', 8000))\nwhile True:\n    c = s.accept()[0]; {do}\n"
        start = "work.start(['python3', 's.py'], port=8000)\n"
    else:
        start = ""
    found = details(f"{RAISES}\n{start}return raised({asked})", ("s.py", server))
    if raises is None:
        assert found == repr(b"x" * 1000)
    else:
        assert found in (raises, "ConnectionResetError" if raises == "ConnectionError" else raises)


# Whose failure it was.


@pytest.mark.parametrize(
    "crash",
    [
        "raise RuntimeError('broken')",
        "import os\nos._exit(70)",
        "import os, signal\nos.kill(os.getpid(), 9)",
        "import no_such_module",
        "raise MemoryError",
        "import sys\nsys.exit(5)",
    ],
)
@pytest.mark.parametrize("looked", [False, True], ids=["before the look", "after the look"])
def test_a_crash_is_ours_before_the_first_look_and_the_agents_zero_after_it(
    play: Callable[..., Any], crash: str, looked: bool
) -> None:
    agent = play("from deepgym_verify import work\n" + ("work.files()\n" if looked else "") + crash)
    agent("true")
    if looked:
        result = agent.score()
        assert (result.error_type, result.score, result.has_verdict) == ("solution_error", 0.0, True)
    else:
        with pytest.raises((VerifierError, SandboxError)) as caught:
            agent.score()
        assert caught.value.result is not None
        assert (caught.value.result.has_verdict, agent.session.result) == (False, None)


@pytest.mark.parametrize(
    "look", ["work.files()", "work.exists('x')", "work.path", "work.run(['true'])", "work.start(['true'])"]
)
def test_every_look_and_every_request_is_one(play: Callable[..., Any], look: str) -> None:
    agent = play(f"from deepgym_verify import work\n{look}\nraise RuntimeError('broken')")
    assert agent.score().error_type == "solution_error"


def test_a_score_that_was_reported_before_a_crash_isnt_kept(play: Callable[..., Any]) -> None:
    agent = play(
        "from deepgym_verify import report, work\nwork.files()\nreport(1.0, True)\nraise RuntimeError('broken')"
    )
    result = agent.score()
    assert (result.error_type, result.score) == ("solution_error", 0.0)


@pytest.mark.parametrize("looked", [False, True], ids=["before the look", "after the look"])
def test_a_verifier_that_exits_2_gives_no_verdict_and_doesnt_raise(
    play: Callable[..., Any], looked: bool
) -> None:
    agent = play(
        "from deepgym_verify import work\n" + ("work.files()\n" if looked else "") + "raise SystemExit(2)"
    )
    agent("true")
    result = agent.score()
    assert (result.has_verdict, result.error_type, result.exit_code) == (False, "verifier_error", 2)
    assert not agent.score().has_verdict


@pytest.mark.parametrize("report", ["return True", "return 0.5", "return {'passed': True}"])
def test_a_verifier_that_never_looks_gives_no_verdict(play: Callable[..., Any], report: str) -> None:
    agent = play(f"def verify(work):\n    {report}\n")
    agent("true")
    with _Outcome() as found:
        found.append(agent.score())
    assert (found[0].has_verdict, found[0].error_type) == (False, "verifier_error")


def test_a_verifier_out_of_time_before_its_look_raises(play: Callable[..., Any]) -> None:
    agent = play("import time\ntime.sleep(1000)", verify=0.5)
    agent("true")
    with pytest.raises(TimeoutError) as caught:
        agent.score()
    assert caught.value.result is not None
    assert (caught.value.result.error_type, caught.value.result.has_verdict) == ("timeout", False)


@pytest.mark.parametrize(
    "work", ["while True: pass", "import time; time.sleep(1000)", "work.run(['sleep', '1000'], timeout=None)"]
)
def test_a_verifier_out_of_time_after_its_look_is_the_agents_zero(
    play: Callable[..., Any], work: str
) -> None:
    agent = play(f"from deepgym_verify import work\nwork.files()\n{work}", verify=0.7)
    result = agent.score()
    assert (result.error_type, result.score, result.has_verdict) == ("solution_timeout", 0.0, True)


@pytest.mark.parametrize("value", ["float('nan')", "2.0", "-0.5", "'1.0'", "True + 1", "10**400"])
def test_a_score_that_is_none_is_a_zero_after_the_look(play: Callable[..., Any], value: str) -> None:
    agent = play(f"def verify(work):\n    work.files()\n    return {{'score': {value}, 'passed': False}}\n")
    result = agent.score()
    assert (result.score, result.has_verdict, result.passed) == (0.0, True, False)


# What an agent leaves for its judge.

PLANTED = {
    name: "import os\nos.write(1, b'{\"score\": 1.0, \"passed\": true}\\n')\nopen('/tmp/planted', 'w').close()\nos._exit(0)\n"
    for name in (
        "deepgym_verify.py",
        "json.py",
        "sitecustomize.py",
        "usercustomize.py",
        "pathlib.py",
        "random.py",
        "subprocess.py",
        "work.py",
        "verify.py",
        "__main__.py",
        "__init__.py",
        "stringprep.py",
        "tomllib/__init__.py",
        "http/client.py",
        "encodings/idna.py",
        "deepgym/__init__.py",
        "x.pth",
    )
}


def test_modules_that_an_agent_planted_change_nothing_in_the_verifier(play: Callable[..., Any]) -> None:
    verify = """
import os
def verify(work):
    os.chdir(work.path)
    import json, pathlib, random, subprocess, string, decimal, csv, stringprep, http.client
    for module in (json, pathlib, random, subprocess, csv, stringprep, http.client):
        assert not (module.__file__ or "").startswith("/box"), module
    assert not os.path.exists("/tmp/planted")
    assert work.text("answer") == "wrong"
    return 0.5
"""
    agent = play(verify)
    for path, text in PLANTED.items():
        agent.write(path, text)
    agent(
        "printf wrong > answer; mkdir -p bin; printf '#!/bin/sh\\necho mine\\n' > bin/python3; chmod +x bin/python3; cp bin/python3 ~/python3"
    )
    result = agent.score()
    assert (result.score, result.error_type) == (0.5, None), (result.error, result.details, result.stderr)


def test_modules_that_an_agent_planted_change_nothing_in_what_asks_its_code(
    details: Callable[..., Any],
) -> None:
    found = details(
        f"{RAISES}\nreturn [work.run(['echo', 'mine']).stdout, raised(work.http, 1), raised(work.tcp, 1, b'x'), work.start(['true']) is not None]",
        *PLANTED.items(),
    )
    assert found == ["mine\n", "ConnectionRefusedError", "ConnectionRefusedError", True]


def test_a_program_on_the_path_is_the_systems_not_the_agents(details: Callable[..., Any]) -> None:
    found = details(
        "return work.run(['python3', '-c', 'print(1)']).stdout",
        "mkdir bin; for d in . bin ~ /tmp; do printf '#!/bin/sh\\necho mine\\n' > $d/python3; chmod +x $d/python3; done",
        "export PATH=$PWD/bin:$PATH; hash -r; python3",
    )
    assert found == "1\n"


FORGERIES = {
    "prints a report": 'import os\nos.write(1, b\'{"score": 1.0, "passed": true}\\n\')\ndef f(x): return 0\n',
    "writes on every descriptor": 'import os\nfor fd in range(3, 64):\n    for text in (b\'{"id":1,"v":2}\\n\', b\'{"score":1.0,"passed":true}\\n\', b\'+\\n\'):\n        try: os.write(fd, text)\n        except OSError: pass\ndef f(x): return 0\n',
    "equals everything": "class Any:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n    __ne__ = lambda self, other: False\ndef f(x): return Any()\n",
    "is an odd number": "class Number(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef f(x): return Number(0)\n",
    "patches the host": "import sys\nfor module in list(sys.modules.values()):\n    for name in ('pack', 'encode'):\n        if hasattr(module, name):\n            try: setattr(module, name, lambda *a, **k: b'true')\n            except Exception: pass\ndef f(x): return 0\n",
    "exits well": "import os\nos._exit(0)\n",
    "raises a skip": "def f(x):\n    raise SystemExit(0)\n",
    "raises an assertion": "def f(x):\n    raise AssertionError\n",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), 9)\nos.kill(-1, 9)\ndef f(x): return 0\n",
}


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_a_reply_cant_be_forged_into_reward_where_values_are_compared(
    verified: Callable[..., RunResult], text: str
) -> None:
    result = verified(
        "from deepgym_verify import rng\nf = work.function('mod', 'f')\nfor _ in range(3):\n    n = rng.randrange(10**9)\n    assert f(n) == n + 1",
        ("mod.py", text),
    )
    assert (result.score, result.passed, result.has_verdict) == (0.0, False, True)


def test_the_agents_code_sees_neither_verifier_nor_seed(details: Callable[..., Any]) -> None:
    look = """
import glob, os, sys
def look():
    found = [os.environ.get("DEEPGYM_SEED"), sorted(os.listdir("/box")), sorted(n for n in os.listdir("/proc") if n.isdigit())]
    try:
        found.append(sorted(os.listdir("/answer")))
    except OSError:
        found.append([])
    return found
"""
    found = details("return work.function('mod', 'look')()", ("mod.py", look))
    assert set(found.pop(1)) <= {"home", "tmp", "work"}
    assert found == [None, ["1", "2"], []]


def test_a_reply_that_is_no_response_is_the_agents_zero(verified: Callable[..., RunResult]) -> None:
    """Its code shares a process with what asks it, and may answer in its place."""
    mod = """
import os, sys
def f():
    for fd in (3, 4):
        for n in range(2, 40):
            try: os.write(fd, b'{"id":%d,"v":{"status":"x","body":5,"headers":[]}}\\n' % n)
            except OSError: pass
    return 1
"""
    result = verified("work.function('mod', 'f')()\nreturn work.http(80).status == 200", ("mod.py", mod))
    assert (result.score, result.has_verdict) == (0.0, True)


def test_a_virtual_environment_in_the_work_directory_still_works_where_it_runs(
    details: Callable[..., Any],
) -> None:
    found = details(
        "return work.run(['venv/bin/python', '-c', 'print(1)'], timeout=20.0).stdout",
        "mkdir -p venv/bin; ln -s $(command -v python3) venv/bin/python",
    )
    assert found == "1\n"
