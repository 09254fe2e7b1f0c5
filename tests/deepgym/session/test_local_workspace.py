"""A session's sandbox on this host: its walls, its files, and what an agent can do to it."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.exceptions import SandboxError

pytestmark = pytest.mark.local_sandbox


def told(agent: Any, code: str) -> Any:
    """What a Python step prints last, as JSON."""
    seen = agent.python(textwrap.dedent(code))
    assert seen.exit_code == 0, seen.text
    return json.loads(seen.text.splitlines()[-1])


ATTEMPT = """
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *arguments):
    ctypes.set_errno(0)
    try:
        found = call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode[ctypes.get_errno()] if found == -1 and ctypes.get_errno() else "done"
"""

REFUSED = {"EPERM", "EACCES", "EROFS", "ENOENT", "ENOSYS", "ESRCH"}


# Walls.


@pytest.mark.parametrize("how", ["bash", "python"])
def test_it_runs_as_a_user_without_privileges_or_ways_to_them(agent: Any, how: str) -> None:
    if how == "bash":
        text = agent("cat /proc/self/status; id -u; id -g; id -G").text
    else:
        text = agent.python(
            "import os; print(open('/proc/self/status').read(), os.getuid(), os.getgid(), os.getgroups())"
        ).text
    status = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    assert [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")] == [0] * 4
    if os.getuid() == 0:  # in a namespace of an ordinary user, the kernel fills this one
        assert int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["1000"] * 4
    assert status["SigBlk"].strip() == "0000000000000000"


def test_files_are_read_as_that_user_too(agent: Any) -> None:
    """``read_file`` and ``write_file`` may no more than a command."""
    agent("touch mine; chmod 000 mine")
    assert "Permission denied" in agent.read("mine").text
    assert "Permission denied" in agent.write("mine", "x").text
    for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/kcore"):
        assert agent.read(path).exit_code == 1, path
    for path in (
        "/new",
        "/usr/new",
        "/proc/self/oom_score_adj_x",
        "/dev/new",
        "/answer/x",
        "/etc/x",
    ):
        assert agent.write(path, "x").exit_code == 1, path


def test_nothing_can_be_written_but_its_own_places(agent: Any) -> None:
    found = agent(
        "find / -xdev -writable -not -type l 2>/dev/null; find /dev /box -writable -not -type l | sort"
    ).text.split()
    allowed = {
        "/box/work",
        "/box/home",
        "/box/tmp",
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
    }
    if os.getuid() != 0:
        allowed.add("/box")  # an ordinary user has but one user id to give
    assert set(found) <= allowed
    assert {"/box/work", "/box/home", "/box/tmp"} <= set(found)


def test_the_host_has_no_processes_files_or_network_here(agent: Any) -> None:
    found = told(
        agent,
        ATTEMPT
        + """
def connect(address):
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as one:
        one.settimeout(2)
        one.connect(address)
print(json.dumps({
    "there": [path for path in ("/etc/passwd", "/sys", "/var", "/root/.bashrc") if os.path.lexists(path)],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "interfaces": open("/proc/net/dev").read().count(":"),
    "routes": len(open("/proc/net/route").readlines()) - 1,
    "host": socket.gethostname(),
    "out": [attempt(connect, address) for address in (("1.1.1.1", 53), ("10.0.0.1", 80), ("::2", 80))],
    "sockets": [attempt(socket.socket, family) for family in (16, 17, 40, 38)],
}))
""",
    )
    assert found["there"] == []
    assert found["processes"] == 2
    assert (found["interfaces"], found["routes"], found["host"]) == (1, 0, "sandbox")
    assert set(found["out"]) <= {"ENETUNREACH", "EADDRNOTAVAIL", "EHOSTUNREACH"}
    assert set(found["sockets"]) <= {"EPERM", "EAFNOSUPPORT", "EACCES"}


def test_no_installed_package_and_nothing_hidden_is_seen(agent: Any) -> None:
    found = agent.python("""
import importlib.util, os, sys
print([name for name in ("deepgym", "pydantic", "anyio", "pytest", "numpy", "pip") if importlib.util.find_spec(name)])
print([path for path in sys.path if path.endswith("-packages") and os.path.isdir(path) and os.listdir(path)])
""")
    assert found.text == "[]\n[]\n"
    package = os.path.dirname(sys.modules["deepgym"].__file__ or "")
    assert (
        agent(f"ls {package} {os.path.dirname(__file__)} {sys.prefix}/lib/*/site-packages/*").exit_code != 0
    )


def test_its_first_process_is_out_of_reach(agent: Any) -> None:
    found = told(
        agent,
        ATTEMPT
        + """
import signal
tries = {f"signal {n}": attempt(os.kill, 1, n) for n in (9, 19, 15, 11, 2, 18)}
for name in ("mem", "environ", "maps", "cwd", "root", "exe", "fd", "fd/3", "ns/pid", "stack", "auxv", "io", "timers"):
    path = "/proc/1/" + name
    tries[name] = attempt(lambda: (os.readlink if name in ("cwd", "root", "exe", "ns/pid") else os.listdir if name == "fd" else lambda p: open(p, "rb").read(1))(path))
tries["mem for writing"] = attempt(open, "/proc/1/mem", "wb")
tries["oom"] = attempt(lambda: open("/proc/1/oom_score_adj", "w").write("1000"))
tries["ptrace"] = attempt(libc.ptrace, 16, 1, None, None)
buffer = ctypes.create_string_buffer(64)
tries["prlimit"] = attempt(lambda: libc.prlimit(1, 7, ctypes.create_string_buffer(16), None))
tries["prlimit read"] = attempt(lambda: libc.prlimit(1, 7, None, buffer))
tries["affinity"] = attempt(lambda: os.sched_setaffinity(1, {0}))
tries["scheduler"] = attempt(lambda: os.sched_setscheduler(1, 5, os.sched_param(0)))
tries["pidfd"] = attempt(lambda: libc.syscall(438, os.pidfd_open(1), 0, 0))
print(json.dumps(tries))
""",
    )
    # A signal that the first process has no handler for doesn't reach it, whoever may send it.
    signals = {name for name in found if name.startswith("signal")}
    assert {name: text for name, text in found.items() if text not in REFUSED and name not in signals} == {}
    assert agent("echo next").text == "next\n"


def test_a_process_that_is_being_prepared_is_out_of_reach_too(agent: Any) -> None:
    """Between its change of user and its program, an agent's new process is where our side still works: who
    could starve it there would turn a step of his own into a failure of ours.
    """
    attack = (
        ATTEMPT
        + """
import struct, sys, time
if os.fork():
    os._exit(0)
lower, base, until = struct.pack("QQ", 0, 0), os.getpid() + 1, time.monotonic() + 4
while time.monotonic() < until:
    for pid in range(base, base + 30):
        for limit in (7, 3, 9):
            if libc.prlimit(pid, limit, lower, None) == 0:
                open("/tmp/hits", "a").write("%d\\n" % pid)
                base = pid
        try:
            fd = os.open("/proc/%d/mem" % pid, os.O_RDONLY)
        except OSError:
            continue
        if b"sandboxed.manager" in open("/proc/%d/cmdline" % pid, "rb").read():
            open("/tmp/hits", "a").write("memory of %d\\n" % pid)
        os.close(fd)
"""
    )
    agent.write("/tmp/attack.py", attack)
    agent("python3 /tmp/attack.py >/dev/null 2>&1")
    for number in range(15):
        assert agent.python("print(1)").text == "1\n"
        assert agent.write("file", "x" * 500_000).exit_code == 0
        assert agent(f"/bin/echo {number}").text == f"{number}\n"
    assert agent("cat /tmp/hits").text.startswith("cat: ")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the calls stand here by their numbers on x86-64")
def test_no_namespace_mount_or_other_dangerous_call_can_be_made(agent: Any) -> None:
    look = """
tries = {
    "unshare": [attempt(libc.unshare, flag) for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000)],
    "clone": [attempt(libc.syscall, 56, flag | 17, None, None, None, None) for flag in (0x10000000, 0x20000000)],
    "mount": [attempt(libc.mount, b"none", b"/box/work", b"tmpfs", 0, None)],
    "umount": [attempt(libc.umount2, path, 2) for path in (b"/box/work", b"/box", b"/proc", b"/")],
    "setuid": [attempt(libc.setuid, 0), attempt(libc.setgid, 0), attempt(libc.setgroups, 0, None)],
    "chroot": [attempt(libc.chroot, b"/tmp")],
    "mknod": [attempt(os.mknod, "/tmp/device", 0o20666, os.makedev(1, 3))],
    "bpf": [attempt(libc.syscall, 321, 0, None, 0)],
    "keyctl": [attempt(libc.syscall, 250, 0, 0)],
    "io_uring": [attempt(libc.syscall, 425, 1, ctypes.create_string_buffer(200))],
    "perf": [attempt(libc.syscall, 298, ctypes.create_string_buffer(200), 0, -1, -1, 0)],
    "hostname": [attempt(libc.sethostname, b"x", 1)],
    "userfaultfd": [attempt(libc.syscall, 323, 0)],
}
print(json.dumps(tries))
"""
    found = told(agent, ATTEMPT + look)
    assert {name: texts for name, texts in found.items() if not set(texts) <= REFUSED | {"EINVAL"}} == {}


def test_the_work_directory_can_be_emptied_but_neither_removed_nor_replaced(agent: Any) -> None:
    for command in (
        "rmdir /box/work",
        "mv /box/work /box/home/work",
        "rm -rf /box/work",
        "ln -sfn /tmp /box/work",
    ):
        agent(command)
    agent("cd /box/work && rm -rf /box/work/* && echo here > there")
    assert agent.read("there").text == "here\n"


def test_a_server_in_the_background_answers_in_later_steps(agent: Any) -> None:
    agent.write("index.html", "hello\n")
    agent("python3 -m http.server 8000 --bind 127.0.0.1 >/tmp/log 2>&1 &")
    fetch = """
import time, urllib.request
for _ in range(1000):
    try:
        print(urllib.request.urlopen("http://HOST:8000/index.html").read().decode(), end="")
        break
    except OSError:
        time.sleep(0.01)
"""
    for host in ("127.0.0.1", "localhost"):
        assert agent.python(fetch.replace("HOST", host)).text == "hello\n"
    assert agent("kill %1; wait; echo gone").text.endswith("gone\n")


def test_two_sessions_see_nothing_of_each_other(play: Callable[..., Any]) -> None:
    one, other = play(), play()
    one("echo secret > a; echo secret > /tmp/a; echo secret > ~/a; sleep 1000 & x=secret")
    one("python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &")
    look = """
import json, os, socket
found = [os.listdir(place) for place in (".", "/tmp", os.environ["HOME"])]
for name in os.listdir("/proc"):
    if name.isdigit():
        found.append(open("/proc/%s/cmdline" % name).read())
with socket.socket() as probe:
    found.append(probe.connect_ex(("127.0.0.1", 8000)))
print(json.dumps(found))
"""
    found = told(other, look)
    assert found[:3] == [[], [], []]
    assert found[-1] != 0
    assert not any("sleep" in one or "http.server" in one for one in found[3:-1])
    assert len(found) == 6
    assert one.session.id != other.session.id


def test_a_session_has_few_of_what_its_host_counts_for_all_together(agent: Any) -> None:
    """Inotify instances count for the user who owns the namespaces as well: 128 for all sandboxes and the host."""
    count = """
import ctypes
libc, found = ctypes.CDLL(None), 0
while found < 48 and libc.inotify_init1(0) >= 0:
    found += 1
print(found)
"""
    assert int(agent.python(count).text) < 48


def test_two_sessions_have_users_of_their_own(play: Callable[..., Any]) -> None:
    """Else the processes of one would count against the other's limit, and its signals reach it."""
    one, other = play(), play()
    marks = ["deepgym-test-mark-1", "deepgym-test-mark-2"]
    for agent, mark in zip((one, other), marks, strict=True):
        agent(f"(exec -a {mark} sleep 1000) & sleep 0.05")
    users = {mark: _user_of(mark) for mark in marks}
    if os.getuid() == 0:
        assert users[marks[0]] != users[marks[1]]
        assert min(users.values()) > 1 << 16


def _user_of(mark: str) -> int:
    return os.stat(_place_of(mark)).st_uid


def _place_of(mark: str) -> str:
    """Where the host sees the process that was started by this name."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline") as command:
                    if command.read().startswith(mark):
                        return f"/proc/{name}"
            except OSError:
                continue
    raise AssertionError(f"no process {mark}")


def test_what_runs_in_the_background_soon_stands_still_and_goes_on_with_the_next_step(agent: Any) -> None:
    """It has no core of its own: the time of other runs would be its."""
    mark = f"deepgym-test-busy-{os.getpid()}"
    agent(f"cp $(command -v bash) /tmp/{mark}; PATH=/tmp:$PATH")
    agent(
        f"{mark} -c 'while :; do n=$((n + 1)); if [ $((n % 1000)) = 0 ]; then echo $n > n; fi; done' & sleep 0.1"
    )
    place, until = _place_of(mark), time.monotonic() + 30

    def state() -> str:
        with open(f"{place}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    while state() != "T" and time.monotonic() < until:
        time.sleep(0.05)
    assert state() == "T"
    agent("before=$(cat n); until [ $(cat n) -gt $before ]; do sleep 0.01; done 2>/dev/null")
    assert state() != "T"


# What runs out.

FORK_BOMB = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
except OSError:
    print("full")
"""


@pytest.mark.parametrize("tool", ["bash", "python", "write"])
def test_after_a_fork_bomb_the_next_step_works(play: Callable[..., Any], tool: str) -> None:
    agent = play(step=15.0, processes=24)
    agent.write("kept", "kept")
    assert "full" in agent.python(FORK_BOMB).text
    if tool == "bash":
        # It is the first command, so its shell has to find room.
        assert "next" in agent("echo next").text
    elif tool == "python":
        assert agent.python("print('next')").text.startswith("next\n")
    else:
        assert agent.write("new", "x").exit_code == 0
    assert agent.read("kept").text.startswith("kept")
    assert agent.score().passed


def test_a_bomb_that_goes_on_forking_is_outlived(play: Callable[..., Any]) -> None:
    agent = play(step=1.0, processes=24)
    agent("bomb() { bomb | bomb & }; bomb")
    agent.python("print('next')")
    assert agent.python("print('next')").text.endswith("next\n")
    assert agent.score().passed


def test_a_shell_without_room_for_processes_can_still_run_what_needs_none(play: Callable[..., Any]) -> None:
    agent = play(step=8.0, processes=16)
    agent("echo begun")
    agent.python(FORK_BOMB.replace('print("full")', "os._exit(1)"))
    agent("/bin/true")
    assert agent("echo builtin").text.endswith("builtin\n")
    agent("kill -9 -1")
    assert agent("/bin/echo program").text.endswith("program\n")


def test_processes_of_one_session_are_none_of_the_others(play: Callable[..., Any]) -> None:
    one, other = play(processes=24), play(processes=24)
    assert one.python(FORK_BOMB).text == "full\n"
    assert other.python(FORK_BOMB).text == "full\n"
    third = play(processes=24)
    assert third("for i in 1 2 3 4 5; do sleep 0.01 & done; wait; echo all").text.endswith("all\n")


def test_threads_count_as_processes(play: Callable[..., Any]) -> None:
    agent = play(processes=24)
    code = """
import threading
stop, count = threading.Event(), 0
try:
    while count < 500:
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count)
"""
    assert int(agent.python(code).text) < 24
    assert agent("echo next").text == "next\n"


def test_orphans_by_the_thousand_are_buried_and_no_step_is_lost_among_them(agent: Any) -> None:
    code = """
import os, time
def fork():
    while True:
        try:
            return os.fork()
        except OSError:
            time.sleep(0.001)
def leave(count):
    for _ in range(count):
        if fork() == 0:
            os._exit(0)
for _ in range(105):
    child = fork()
    if child == 0:
        leave(40)
        os._exit(0)
    os.waitpid(child, 0)
leave(40)
print("left")
"""
    assert agent.python(code).text == "left\n"
    assert agent("echo next; ps -e | wc -l").text.split()[0] == "next"


@pytest.mark.parametrize("hog", ["one process", "children", "bash", "file in memory"])
def test_after_memory_ran_out_the_next_step_works(play: Callable[..., Any], hog: str) -> None:
    agent = play(step=20.0, memory=96 << 20, processes=16, disk=8 << 20)
    agent.write("kept", "kept")
    if hog == "one process":
        assert agent.python("held = []\nwhile True: held.append(bytearray(1 << 22))").exit_code != 0
    elif hog == "children":
        agent.python(
            "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        held = bytearray(40 << 20)\n        for at in range(0, len(held), 4096): held[at] = 1\n        time.sleep(1000)\ntime.sleep(1)"
        )
    elif hog == "bash":
        agent("x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done")
    else:
        agent.python(
            "import os\nheld = []\ntry:\n    while len(held) < 100:\n        fd = os.memfd_create('x')\n        os.write(fd, b'x' * (4 << 20))\n        held.append(fd)\nexcept OSError: pass"
        )
    assert agent("echo next").text.endswith("next\n")
    assert agent.python("print('next')").text.endswith("next\n")
    assert agent.read("kept").text == "kept"
    assert agent.score().passed


def test_descriptors_that_the_agent_used_up_are_its_own(play: Callable[..., Any]) -> None:
    agent = play(open_files=32)
    code = "import os\nfds = []\ntry:\n    while True: fds.append(os.open('/dev/null', 0))\nexcept OSError as error: print(error.errno)"
    assert agent.python(code).text == "24\n"
    agent('for i in {3..40}; do eval "exec $i</dev/null"; done')
    agent("echo next")
    # A shell without a descriptor left can't even begin a command: it has to be ended from outside.
    agent.python("import os; os.kill(-1, 9)")
    assert agent("cat /dev/null; echo next").text == "next\n"
    assert agent.score().passed


def test_after_the_disk_was_full_files_can_be_removed_and_steps_go_on(play: Callable[..., Any]) -> None:
    agent = play(disk=4 << 20, file_size=64 << 20)
    assert "No space" in agent("cat /dev/zero > full").text
    assert "No space" in agent.write("more", "x" * 100_000).text
    assert agent("echo next").text == "next\n"
    assert agent.python("print('next')").text == "next\n"
    assert "No space" in agent("head -c 100000 /dev/zero > /tmp/x").text
    assert agent("rm -f full /tmp/x; echo fits > more; cat more").text == "fits\n"


def test_a_full_disk_is_scored(play: Callable[..., Any]) -> None:
    agent = play("def verify(work):\n    return work.size('full') > 3 << 20", disk=4 << 20)
    agent("cat /dev/zero > full")
    assert agent.score().passed


def test_names_of_files_run_out_too(play: Callable[..., Any]) -> None:
    agent = play(files=64)
    code = "import os\ntry:\n    for n in range(1000): open('f%d' % n, 'w').close()\nexcept OSError as error: print(error.errno, n < 64)"
    assert agent.python(code).text == "28 True\n"
    assert agent("echo next").text == "next\n"
    assert agent.score().passed


def test_a_file_beyond_its_bound_is_refused(play: Callable[..., Any]) -> None:
    agent = play(file_size=1 << 20)
    seen = agent("head -c 3000000 /dev/zero > big")
    assert seen.exit_code != 0
    assert agent("wc -c < big").text == f"{1 << 20}\n"


def test_processor_time_runs_out_for_each_process(play: Callable[..., Any]) -> None:
    agent = play(actions=1.0, step=30.0)
    seen = agent("ulimit -t")
    assert int(seen.text) in (1, 2)


@pytest.mark.parametrize(
    "attack",
    [
        "kill -STOP -1",
        "kill -9 -1",
        "kill -TERM -1; kill -HUP -1",
        "kill -STOP $$ &",
        "renice 19 $$; renice -n 5 -u 1000",
        "ulimit -S -u 1; ulimit -S -n 10; ulimit -S -f 0",
        "chmod -R 000 /box/work /box/home /tmp/* .",
        "cd /; rm -rf --no-preserve-root / 2>/dev/null",
        "exec -a '' sleep 0",
        "trap '' CHLD PIPE TERM INT HUP QUIT ALRM USR1 USR2",
        "mkfifo fifo; exec 9<>fifo",
        "for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null",
        "while :; do :; done & while :; do :; done &",
    ],
)
def test_after_an_attack_on_everything_the_next_steps_work(play: Callable[..., Any], attack: str) -> None:
    agent = play(step=1.0)
    assert not agent(attack).done
    agent("exit")
    assert agent("echo next").text.endswith("next\n")
    assert agent.python("print('next')").text == "next\n"
    assert agent.read("/proc/self/comm").exit_code == 0
    assert agent.score().passed


def test_a_process_that_stops_all_others_again_and_again_costs_time_and_no_verdict(
    play: Callable[..., Any],
) -> None:
    agent = play(step=0.5)
    agent("x=1")
    agent.python("import os\nif os.fork() == 0:\n    os.setsid()\n    while True: os.kill(-1, 19)")
    for _ in range(2):
        assert agent("echo next").ended in (None, "sandbox")
        if agent.session.done:
            break
    result = agent.score()
    assert result.has_verdict


# read_file and write_file.


def test_missing_folders_are_made_and_files_replaced(agent: Any) -> None:
    assert agent.write("a/b/c.txt", "one\n").text == "wrote 4 bytes to a/b/c.txt\n"
    assert agent.write("a/b/c.txt", "2").exit_code == 0
    assert agent.read("a/b/c.txt").text == "2"
    assert agent.read("./a/../a/b/c.txt").text == "2"
    assert agent("stat -c '%a %U' a/b a/b/c.txt; cat a/b/c.txt").text.startswith("755")


@pytest.mark.parametrize(
    "content",
    ["", "no newline", "a\r\nb\r", "żółć 日本 🙂", "\0\x01\x7f", "x" * (1 << 20), "'\"\\`$(exit)\n"],
)
def test_what_was_written_is_read_back(play: Callable[..., Any], content: str) -> None:
    agent = play(output=2 << 20)
    assert agent.write("file", content).exit_code == 0
    seen = agent.read("file")
    assert seen.text == content
    assert not seen.cut


@pytest.mark.parametrize(
    "name", ["a b", "-rf", "żółw", "a'b\"c", "x" * 255, "*", "new\nline", "~", "$HOME", "a;b", " "]
)
def test_odd_names_are_names(agent: Any, name: str) -> None:
    assert agent.write(name, "here").exit_code == 0
    assert agent.read(name).text == "here"
    assert agent("ls -A | wc -l").text.strip() in ("1", "2")


@pytest.mark.parametrize("name", ["x" * 256, "a/" * 2000 + "f", "", "."])
def test_names_that_cant_be_are_told(agent: Any, name: str) -> None:
    assert agent.write(name, "x").exit_code != 0
    assert agent.read(name).exit_code != 0
    assert agent("echo next").text == "next\n"


def test_what_is_no_regular_file_is_told_at_once(play: Callable[..., Any]) -> None:
    agent = play(step=10.0)
    agent("mkfifo fifo; mkdir folder; ln -s fifo link; ln -s loop loop; ln -s /dev/zero zero; exec 9<>fifo")
    agent.python("import socket; socket.socket(socket.AF_UNIX).bind('socket')")
    for path in (
        "fifo",
        "folder",
        "link",
        "loop",
        "zero",
        "socket",
        "/dev/zero",
        "/dev/random",
        "/dev/full",
        "/proc/self/fd/0",
    ):
        for seen in (agent.read(path), agent.write(path, "x")):
            assert (seen.exit_code, seen.timed_out) == (1, False), path
            assert seen.text.strip(), path
    assert "Is a directory" in agent.read("folder").text


def test_a_file_that_is_missing_or_forbidden_is_told(agent: Any) -> None:
    assert agent.read("none").text.startswith("No such file or directory: none")
    agent("mkdir shut; touch shut/file; chmod 000 shut")
    assert "Permission denied" in agent.read("shut/file").text
    assert "Permission denied" in agent.write("shut/new", "x").text
    agent("touch file")
    assert agent.write("file/below", "x").exit_code == 1


def test_links_lead_where_the_agent_may_go_and_no_further(agent: Any) -> None:
    agent("ln -s /proc/1/environ secret; ln -s /tmp/target out; ln -s ../../../../usr/bin/env up")
    assert "Permission denied" in agent.read("secret").text
    assert agent.write("out", "there").exit_code == 0
    assert agent("cat /tmp/target").text == "there"
    assert agent.read("up").exit_code == 0
    assert agent.write("up", "x").exit_code == 1


def test_a_long_file_shows_its_beginning_and_its_end(play: Callable[..., Any]) -> None:
    agent = play(output=1000)
    agent("seq 1 1000000 > numbers")
    seen = agent.read("numbers")
    assert seen.cut
    assert seen.text.startswith("1\n2\n3\n")
    assert seen.text.endswith("\n1000000\n")
    assert f"[{6_888_896 - 1000} bytes left out]" in seen.text


def test_a_file_without_a_size_of_its_own_is_read(agent: Any) -> None:
    assert "Name:" in agent.read("/proc/self/status").text
    assert "processor" in agent.read("/proc/cpuinfo").text


def test_a_sparse_file_is_read_within_the_bounds_of_a_step(play: Callable[..., Any]) -> None:
    agent = play(file_size=1 << 40, output=1000)
    agent("truncate -s 1T sparse")
    seen = agent.read("sparse")
    assert len(seen.text) < 2000
    assert agent("echo next").text == "next\n"


def test_binary_content_is_shown_as_text(agent: Any) -> None:
    agent("head -c 2000 /dev/urandom > noise; printf 'a\\xffb\\0c' > small")
    agent.read("noise").text.encode()
    assert agent.read("small").text == "a\ufffdb\0c"


def test_a_file_that_grows_while_it_is_read_ends(play: Callable[..., Any]) -> None:
    agent = play(step=10.0, disk=32 << 20)
    agent("yes > growing & while [ ! -s growing ]; do :; done")
    assert agent.read("growing").cut
    agent("kill %1")


# Tiers.


@pytest.mark.parametrize("tier", ["landlock", "unsafe"])
@pytest.mark.filterwarnings("ignore")
def test_a_tier_without_namespaces_has_no_sessions_and_says_so(
    own_slots: str, environment: Callable[..., Any], tier: str
) -> None:
    from deepgym.providers.local.tiers import missing

    if missing(tier) is not None:
        pytest.skip(f"this host has no tier {tier}")
    with DeepGym(slots=1, isolation=tier) as client, client.session(environment()) as session:
        with pytest.raises(
            SandboxError, match=f"needs namespaces, and this host's tier is '{tier}'"
        ) as caught:
            session.reset()
        assert caught.value.result is not None
        assert not caught.value.result.has_verdict
        with pytest.raises(SandboxError, match="needs namespaces"):
            session.score()
