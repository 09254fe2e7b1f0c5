"""The commands of ``session_laws``, and what a ``FakeProvider`` does with them."""

from __future__ import annotations

from typing import Any

from deepgym.providers.base import Ran
from deepgym.testing.sessions import FakeSessions, FakeWorkspace
from deepgym.testing.trees import Entry

MISSING = "no-such-program"
ECHO = "echo hello"
BOTH = "echo out; echo err >&2"
STATUS = "(exit 3)"
UNKNOWN = "no-such-command-anywhere"
PYTHON = "print(6 * 7)"
PYTHON_STATUS = "raise SystemExit(5)"
GREETING = 'echo "$GREETING" > greeting.txt'
FAILING = "echo no; exit 4; echo never"
REMEMBER = "mkdir -p below && cd below && name='kept here' && say() { echo \"$name\"; }"
RECALL = '[ "$(basename "$PWD")" = below ] && say'
READS_INPUT = "cat; echo after"
LONG = "seq 100000"
LONG_PYTHON = "print('x' * 1_000_000)"
NO_TEXT = r"printf '\377\376\000\n'"
PIPES = "mkfifo pipe"
DONE = "printf yes > done"
SETUP = 'mkdir -p src && echo "$DEEPGYM_SEED" > src/seed'

VERIFIER = """
def verify(work):
    work.path  # laid out whole, whatever it holds
    return work.exists("done") and work.read("done") == b"yes"
"""

#: Each ends the agent's shell.
SHELL_ENDERS = ("kill -9 $$", "exit 7", "exec false", "set -e; false", 'eval "$(')
SLEEP = "sleep 1000"
#: Acts that never end by themselves.
ENDLESS = (
    ("bash", SLEEP),
    ("bash", "trap '' INT TERM HUP; while :; do :; done"),
    ("bash", "sleep 1000 & wait"),
    ("bash", "mkfifo never; cat never"),
    ("script", "sleep 1000"),
    ("python", "import time\nwhile True: time.sleep(10)"),
)

LOG = "log"
_LOOP = "while :; do echo x >> /box/work/log; sleep 0.01; done"
#: Jobs that write on: of the shell, in a session of its own, and with no parent left.
WRITER = (
    f"({_LOOP}) & setsid nohup bash -c '{_LOOP}' > /dev/null 2>&1 & "
    f"(trap '' HUP INT TERM; ({_LOOP}) & ) ; true"
)
#: A process that can be known again.
LINGER = "sleep 98765 & true"
MARK = 'echo mine > mark; echo mine > /tmp/mark; echo mine > "$HOME/mark"'
#: Says whether files or processes of the commands above can be seen.
LOOK = (
    'if cat mark /tmp/mark "$HOME/mark" > /dev/null 2>&1 || ls /box/work/mark > /dev/null 2>&1; then '
    "echo files; fi; "
    "for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline 2> /dev/null; echo; done "
    "| grep -q '^sleep 98765' && echo processes; echo alone"
)
KILL_ALL = "kill -9 -1"

#: Work that any sandbox can hold, and the entries of its copy.
WORK = (
    "mkdir -p a/b empty && printf text > a/b/c.txt && head -c 3000 /dev/zero > zeros && : > nothing && "
    "printf '#!/bin/sh\\n' > run.sh && chmod 755 run.sh && ln -s a/b/c.txt link && "
    "printf x > 'with space' && printf x > \"$(printf 'n\\303\\251')\""
)
LEFT: dict[str, Entry] = {
    "a": Entry("d"),
    "a/b": Entry("d"),
    "a/b/c.txt": Entry("f", b"text"),
    "empty": Entry("d"),
    "link": Entry("l", target="a/b/c.txt"),
    "nothing": Entry("f"),
    "n\u00e9": Entry("f", b"x"),
    "run.sh": Entry("f", b"#!/bin/sh\n", executable=True),
    "with space": Entry("f", b"x"),
    "zeros": Entry("f", bytes(3000)),
}

#: Everything that a copy could stumble over.
HOSTILE = r"""
printf 'plain\n' > plain.txt
mkfifo pipe
ln -s /etc/passwd passwd; ln -s / outside; ln -s loop loop; ln -s ../../../.. up; ln -s missing dangling
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')" 2> /dev/null
truncate -s 10M sparse
mkdir locked && printf x > locked/in && chmod 000 locked
printf x > unreadable && chmod 000 unreadable
printf x > "$(printf 'bad\377name')"; printf x > "$(printf 'line\nbreak')"
printf x > -rf; printf x > '$(reboot)'
deep=.; for i in $(seq 100); do deep=$deep/d; done; mkdir -p $deep && printf x > $deep/bottom
mkdir many; for i in $(seq 600); do : > many/$i; done
ln plain.txt hard
true
"""

_BOMB = "bomb() { bomb | bomb & }; bomb; true"
#: What an agent may do to its own sandbox.
ATTACKS = (
    KILL_ALL,
    "kill -9 1; kill -TERM 1; kill -STOP 1; true",
    "kill -STOP $$",
    "rm -rf /box/work /box/home /tmp/* 2> /dev/null; true",
    "cd / && rm -rf /box/work && ln -s /etc /box/work; true",
    "chmod 000 . ; chmod 000 /box/work; true",
    "exec >&- 2>&- <&-",
    "head -c 1G /dev/zero > full; true",
    "i=0; while : > f$i; do i=$((i+1)); done 2> /dev/null; true",
    "python3 -c 'x = bytearray(1 << 34)'; python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'",
    _BOMB,
    "for fd in /proc/1/fd/* /proc/$PPID/fd/*; do echo '{}' > $fd; done 2> /dev/null; true",
    "ulimit -n 0; ulimit -f 0; ulimit -u 0",
    "trap '' INT TERM; while :; do sleep 0.01 & done",
    "printf() { :; }; eval() { :; }; trap() { :; }; true",
    "yes",
)


def _remember(workspace: FakeWorkspace) -> str:
    workspace.notes["shell"] = True
    return ""


def _recall(workspace: FakeWorkspace) -> Any:
    return "kept here\n" if workspace.notes.get("shell") else Ran(code=1)


def _grow(workspace: FakeWorkspace) -> None:
    workspace.files["log"] = workspace.files.get("log", b"") + b"x\n"


def _write_on(workspace: FakeWorkspace) -> str:
    workspace.background.append(_grow)
    return ""


def _linger(workspace: FakeWorkspace) -> str:
    workspace.notes["lingers"] = True
    return ""


def _mark(workspace: FakeWorkspace) -> str:
    workspace.notes["marked"] = True
    return ""


def _look(workspace: FakeWorkspace) -> str:
    seen = {"files": "marked", "processes": "lingers"}
    return "".join(f"{word}\n" for word, note in seen.items() if workspace.notes.get(note)) + "alone\n"


def _greet(workspace: FakeWorkspace) -> str:
    workspace.files["greeting.txt"] = workspace.acts[-1].env["GREETING"].encode() + b"\n"
    return ""


def _work(workspace: FakeWorkspace) -> str:
    workspace.entries.update(LEFT)
    return ""


def _hostile(workspace: FakeWorkspace) -> str:
    many = {f"many/{number}": Entry("f") for number in range(600)}
    links = {"passwd": "/etc/passwd", "outside": "/", "loop": "loop", "up": "../../../.."}
    workspace.entries.update({path: Entry("l", target=target) for path, target in links.items()}, **many)
    workspace.files["plain.txt"] = b"plain\n"
    return ""


def _done(workspace: FakeWorkspace) -> str:
    workspace.files["done"] = b"yes"
    return ""


_ENDED = Ran(code=1, note="the shell ended; the next command gets a new one")


def _acts() -> dict[str, Any]:
    said = {
        ECHO: "hello\n",
        BOTH: "out\nerr\n",
        STATUS: Ran(code=3),
        PYTHON: "42\n",
        PYTHON_STATUS: Ran(code=5),
        FAILING: Ran(output=b"no\n", code=4),
        READS_INPUT: "after\n",
        LONG: "".join(f"{number}\n" for number in range(1, 100_001)),
        LONG_PYTHON: "x" * 1_000_000,
        NO_TEXT: b"\xff\xfe\x00\n",
        SETUP: "",
        PIPES: "",
    }
    done = {
        REMEMBER: _remember,
        RECALL: _recall,
        WRITER: _write_on,
        LINGER: _linger,
        MARK: _mark,
        LOOK: _look,
        GREETING: _greet,
        WORK: _work,
        HOSTILE.strip(): _hostile,
        DONE: _done,
    }
    ends = dict.fromkeys((*SHELL_ENDERS, *ATTACKS), _ENDED)
    endless = {source: Ran(seconds=1e9) for _, source in ENDLESS}
    return {**ends, **endless, **said, **done}


def _judge(files: dict[str, bytes]) -> float:
    return float(files.get("done") == b"yes")


def sessions() -> FakeSessions:
    """A fake's sessions that know the commands above."""
    return FakeSessions(_acts(), judged=_judge, missing=frozenset({MISSING}))
