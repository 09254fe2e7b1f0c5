"""Nothing of one answer is there for the next one in the same slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits

pytestmark = pytest.mark.local_sandbox

Look = Callable[..., Any]
_CASES = Cases(function="f", cases=(Case(args=(1,), expected=2),))
_ENV = Environment(name="t", task="t", verify=_CASES, limits=EnvironmentLimits(wall=20.0))


@pytest.fixture(scope="module")
def one(local_sandbox: None, own_slots: str) -> Iterator[DeepGym]:
    """A client with one slot, so that every run follows the last one in the same zygote."""
    with DeepGym(slots=1) as client:
        yield client


@pytest.fixture
def then(one: DeepGym) -> Callable[[str, str], RunResult]:
    """Run one answer, then another in the same slot: the second's result."""

    def run(before: str, after: str) -> RunResult:
        first = one.run(_ENV, before + "\ndef f(x): return x + 1")
        assert first.passed, (first.error, first.stderr)
        second = one.run(_ENV, after)
        assert first.sandbox_id == second.sandbox_id
        return second

    return run


_FIND = """
import os
def f(x):
    print([os.listdir(path) for path in ("/box", "/tmp", "/dev/shm", "/answer")])
    return x + 1
"""


@pytest.mark.parametrize(
    "path", ["/box/left", "/tmp/left", "/dev/shm/left", "/box/.left", "/box/tmp/.left"], ids=str
)
def test_files_are_gone(then: Callable[[str, str], RunResult], path: str) -> None:
    result = then(f"open({path!r}, 'w').write('left')", _FIND)
    assert result.output == "[['tmp'], [], [], []]\n"


def test_folders_that_cant_be_read_or_removed_are_gone(then: Callable[[str, str], RunResult]) -> None:
    result = then("import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').close()\nos.chmod('a', 0)", _FIND)
    assert result.output == "[['tmp'], [], [], []]\n"


def test_folders_nested_beyond_any_path_length_are_gone(then: Callable[[str, str], RunResult]) -> None:
    deep = "import os\nfor _ in range(1500):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)\n"
    assert then(deep, _FIND).output == "[['tmp'], [], [], []]\n"


def test_a_full_disk_is_empty_again(then: Callable[[str, str], RunResult]) -> None:
    fill = "try:\n    while True: open('big', 'ab').write(b'x' * (1 << 20))\nexcept OSError: pass"
    result = then(fill, "def f(x):\n    open('big', 'wb').write(b'x' * (32 << 20))\n    return x + 1")
    assert result.passed


_IPC = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
calls = {
    "shm": lambda flags: libc.shmget(0x5EED, 4096, flags | 0o600),
    "queue": lambda flags: libc.msgget(0x5EED, flags | 0o600),
    "semaphore": lambda flags: libc.semget(0x5EED, 1, flags | 0o600),
}
"""


@pytest.mark.parametrize("kind", ["shm", "queue", "semaphore"])
def test_system_v_objects_are_gone(then: Callable[[str, str], RunResult], kind: str) -> None:
    create = _IPC + f"\nassert calls[{kind!r}](0o1000) >= 0"
    find = _IPC + f"\ndef f(x):\n    print(calls[{kind!r}](0))\n    return x + 1"
    assert then(create, find).output == "-1\n"


def test_a_daemon_doesnt_outlive_its_run(then: Callable[[str, str], RunResult]) -> None:
    daemon = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(256):
            try:
                os.close(fd)
            except OSError:
                pass
        while True:
            time.sleep(0.01)
    os._exit(0)
"""
    look = """
import os
def f(x):
    print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
    return x + 1
"""
    assert then(daemon, look).output == "[1, 2]\n"


def test_an_abstract_socket_isnt_reachable_from_the_next_run(one: DeepGym) -> None:
    env = _ENV.model_copy(update={"loopback": True})
    listen = """
import socket, os, time
def f(x):
    server = socket.socket(socket.AF_UNIX)
    server.bind("\\0left")
    server.listen()
    if os.fork() == 0:
        time.sleep(60)
    return x + 1
"""
    connect = """
import socket
def f(x):
    try:
        socket.socket(socket.AF_UNIX).connect("\\0left")
    except ConnectionRefusedError:
        return x + 1
"""
    assert one.run(env, listen).passed
    assert one.run(env, connect).passed


def test_a_loopback_interface_that_was_up_is_down_in_the_next_run(one: DeepGym) -> None:
    show = "def f(x):\n    print(open('/proc/net/fib_trie').read())\n    return x + 1"
    without = one.run(_ENV, show).output
    up = one.run(_ENV.model_copy(update={"loopback": True}), show).output
    assert "127.0.0.1" in up
    assert "127.0.0.1" not in without
    assert one.run(_ENV, show).output == without


@pytest.mark.parametrize(
    ("change", "look"),
    [
        ("import sys\nsys.modules['left'] = sys", "__import__('sys').modules.get('left')"),
        ("import sys\nsys.path.append('left')", "[p for p in __import__('sys').path if p == 'left']"),
        ("import sys\nsys.setrecursionlimit(55)", "__import__('sys').getrecursionlimit() == 55"),
        ("import os\nos.environ['LEFT'] = '1'", "__import__('os').environ.get('LEFT')"),
        ("import os\nos.chdir('/')", "__import__('os').getcwd() != '/box'"),
        ("import os\nos.umask(0o777)", "__import__('os').umask(0o22) == 0o777"),
        ("import builtins\nbuiltins.left = 1", "getattr(__import__('builtins'), 'left', None)"),
        ("import math\nmath.pi = 3", "__import__('math').pi == 3"),
        ("import json\njson.dumps = None", "__import__('json').dumps is None"),
        ("import signal\nsignal.signal(15, signal.SIG_IGN)", "__import__('signal').getsignal(15) == 1"),
        ("import resource\nresource.setrlimit(7, (9, 9))", "__import__('resource').getrlimit(7)[0] == 9"),
        ("import os\nos.nice(5)", "__import__('os').nice(0) == 5"),
        ("import gc\ngc.disable()", "not __import__('gc').isenabled()"),
        ("import decimal\ndecimal.getcontext().prec = 3", "__import__('decimal').getcontext().prec == 3"),
        ("import sys\nsys.stdout = None", "__import__('sys').stdout is None"),
    ],
    ids=lambda text: text.split("\n")[-1][:40],
)
def test_the_interpreters_state_is_fresh(
    then: Callable[[str, str], RunResult], change: str, look: str
) -> None:
    result = then(change, f"def f(x): return x + 1 if not ({look}) else {look!r}")
    assert result.passed, result.cases


def test_random_numbers_dont_depend_on_the_run_before(then: Callable[[str, str], RunResult]) -> None:
    draw = "import random\ndef f(x):\n    print(random.random())\n    return x + 1"
    first = then("import random\nrandom.seed(1)\nrandom.random()", draw)
    second = then("import random\nfor _ in range(100): random.random()", draw)
    assert first.output == second.output


def test_random_numbers_follow_the_seed(one: DeepGym) -> None:
    draw = "import random\ndef f(x):\n    print(random.random())\n    return x + 1"
    outputs = [one.run(_ENV, draw, seed=seed).output for seed in (1, 2, 1)]
    assert outputs[0] == outputs[2] != outputs[1]


def test_an_answer_that_broke_everything_leaves_its_slot_whole(one: DeepGym) -> None:
    for wreck in (
        "import os\nos.kill(os.getpid(), 9)",
        "import os\nwhile True: os.write(3, b'x' * 65536)",
        "import sys\nsys.modules.clear()\nsys.path.clear()",
        "import ctypes\nctypes.string_at(0)",
        "import os\nfor fd in range(256):\n    try: os.close(fd)\n    except OSError: pass",
        "held = []\nwhile True: held.append(bytearray(1 << 24))",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: os.kill(0, 9)",
    ):
        (broken,) = one.run_batch(_ENV, [wreck]).results
        assert broken.has_verdict, (wreck, broken.error)
        assert not broken.passed
        assert one.run(_ENV, "def f(x): return x + 1").passed, wreck


def test_another_slots_answer_cant_be_seen(local_sandbox: None, own_slots: str) -> None:
    """Two runs at once: neither sees the other's processes, files or text."""
    marker = "a-text-that-only-the-other-answer-holds"
    quiet = f"""
import time
open('{marker}', 'w').close()
def f(x):
    time.sleep(0.5)
    return x + 1
"""
    curious = """
import glob, os, time
def f(x):
    found = set()
    for _ in range(40):
        found.update(name for name in os.listdir("/proc") if name.isdigit())
        for path in glob.glob("/box/**", recursive=True) + glob.glob("/answer/**") + glob.glob("/proc/[0-9]*/cwd/*"):
            found.add(os.path.basename(path))
        time.sleep(0.01)
    print(sorted(found))
    return x + 1
"""
    with DeepGym(slots=2) as client:
        result = client.run_batch(_ENV, [quiet, curious], max_parallel=2)
    assert [one.passed for one in result.results] == [True, True]
    assert marker not in result.results[1].output
    assert "'1', '2'" in result.results[1].output
    assert "'3'" not in result.results[1].output
    assert {one.sandbox_id for one in result.results} == {"local-0", "local-1"}


def test_no_writable_memory_is_shared_with_what_comes_after(one: DeepGym) -> None:
    """A shared mapping of the process that runs are forked from would be a letter box between them."""
    answer = """
def f():
    with open("/proc/self/maps") as maps:
        return [line for line in maps if line.split()[1][1:4:2] == "ws"]
"""
    environment = Environment(name="maps", task="f", verify=Cases(function="f", cases=(Case(expected=[]),)))
    result = one.run(environment, answer)
    assert result.passed, result
