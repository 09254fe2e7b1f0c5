"""Hosts that refuse namespaces, as stock containers do; and the tiers that need none."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepgym.providers.local.tiers import TIERS, missing

pytestmark = pytest.mark.local_sandbox

Host = Callable[..., Any]
_DENIED = str(pathlib.Path(__file__).parent / "denied.py")
_SOURCE = str(pathlib.Path(__file__).parents[3] / "packages" / "deepgym" / "src")


@pytest.fixture(params=["root", "user"])
def host(
    request: pytest.FixtureRequest, script: Callable[..., Any], readable: tuple[list[str], str]
) -> Iterator[Host]:
    """``host(text)``: a script on a host that refuses namespaces, run by root or by an ordinary user.

    Further arguments go to ``denied.py``; ``before`` is a command to use in its place.
    """
    command, site = readable
    options: dict[str, Any] = {"path": site, "cwd": "/"}
    if request.param == "root" and os.getuid() != 0:
        pytest.skip("not root")
    if request.param == "user" and os.getuid() == 0:
        options.update(user=23456, group=23456, extra_groups=[])
    with tempfile.TemporaryDirectory(prefix="deepgym-test-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        slots = folder / "slots"
        slots.mkdir()
        if "user" in options:
            os.chown(slots, 23456, 23456)

        def start(text: str, *deny: str, before: tuple[str, ...] = ()) -> Any:
            denied = [*(before or (*command, _DENIED, *deny)), *command]
            return script(text, denied, folder=folder, slots=str(slots), **options)

        yield start


def test_a_host_without_namespaces_falls_back_to_landlock_and_says_so_once(host: Host) -> None:
    found = host("""
        program = Program(source="def verify(solution):\\n    solution.source()\\n    return solution.function('f')(1) == 2")
        answers = [RIGHT, "def f(x): return x", "import os\\nos._exit(2)", "while True: pass", "def f(x:"]
        with DeepGym(slots=2) as dg, DeepGym(slots=1) as other:
            env = environment(wall=1.0)
            own = env.model_copy(update={"verify": program})
            batches = [dg.run_batch(one, answers) for one in (env, own)]
            assert other.run(env, RIGHT).isolation == dg.run(env, RIGHT).isolation == "landlock"
            enforced = dg.run(env, RIGHT).enforced
        say(json.dumps([enforced, [[[r.score, r.error_type] for r in batch.results] for batch in batches]]))
    """)
    out, err = found.finish()
    enforced, batches = json.loads(out.splitlines()[-1])
    assert {name: enforced[name] for name in ("files", "network", "disk")} == {
        "files": "enforced",
        "network": "enforced",
        "disk": "rlimit",
    }
    expected = [
        [1.0, None],
        [0.0, None],
        [0.0, "solution_error"],
        [0.0, "solution_timeout"],
        [0.0, "solution_error"],
    ]
    assert batches == [expected, expected]
    assert err.count("this host refuses namespaces") == 1
    found.wait_until_gone()


_LOOK = """
import errno, json, os, resource, signal, socket, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def f(x):
    target, parent = TARGET
    calls = {
        "open": lambda: open(target),
        "append": lambda: open(target, "a"),
        "truncate": lambda: os.truncate(target, 0),
        "chmod": lambda: os.chmod(target, 0o600),
        "utime": lambda: os.utime(target),
        "unlink": lambda: os.unlink(target),
        "link": lambda: os.link(target, "link"),
        "list": lambda: os.listdir(os.path.dirname(target)),
        "kill": lambda: os.kill(parent, 0),
        "killall": lambda: os.kill(-1, 0),
        "prlimit": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
        "affinity": lambda: os.sched_setaffinity(parent, {0}),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        "environ": lambda: open("/proc/%d/environ" % parent),
        "socket": lambda: socket.socket(socket.AF_INET),
        "unix": lambda: socket.socket(socket.AF_UNIX),
        "shadow": lambda: open("/etc/passwd"),
        "tmp": lambda: open("/tmp/left", "w"),
        "shm": lambda: open("/dev/shm/left", "w"),
        "sysv": lambda: libc.shmget(0x5EED, 4096, 0o1600) >= 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")),
        "mknod": lambda: os.mknod("device", 0o20666, os.makedev(1, 3)),
    }
    found = {name: attempt(call) for name, call in calls.items()}
    open("own", "w").write("x")
    os.mkdir("folder")
    os.rename("own", "folder/own")
    found["own"] = sorted(os.listdir("."))
    found["home"] = os.environ["HOME"] == os.getcwd() and os.environ["TMPDIR"] == os.getcwd() + "/tmp"
    print("FOUND" + json.dumps(found))
    return x + 1
"""


def test_an_answer_under_landlock_reaches_nothing_of_its_user(host: Host) -> None:
    found = host(f"""
        target = os.path.join(os.environ["SLOTS"], "secret")
        open(target, "w").write("secret")
        answer = {_LOOK!r}.replace("TARGET", repr((target, os.getpid())))
        with DeepGym(slots=1) as dg:
            result = dg.run(environment(), answer)
        assert result.passed and result.isolation == "landlock", result
        assert open(target).read() == "secret"
        say(result.output.split("FOUND")[1].strip())
    """).result()
    refused = {"EACCES", "EPERM"}
    harmless = {"own": found.pop("own"), "home": found.pop("home")}
    assert harmless == {"own": ["folder", "tmp"], "home": True}
    assert found.pop("prlimit") in {*refused, "ESRCH"}
    assert found.pop("link") in {*refused, "EXDEV"}
    killed = found.pop("killall")
    assert killed in {"EPERM", "ESRCH", "done"}  # "done": it may signal itself
    assert {name: what for name, what in found.items() if what not in refused} == {}


_WRECK = """
import os, signal, time
def f(x):
    for _ in range(1200):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    open("file", "w").close()
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.execv("/bin/sleep", ["sleep", "SECONDS"])
            os._exit(0)
    time.sleep(0.2)
    return x + 1
"""
_LIST = """
import os
def f(x):
    print(sorted(os.listdir('.')), os.listdir('tmp'))
    return x + 1
"""


def _running(word: str) -> list[str]:
    """Processes that have ``word`` on their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if word.encode() in pathlib.Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(name)
    return found


def test_nothing_of_a_run_without_namespaces_is_left(host: Host) -> None:
    seconds = f"61.{os.getpid()}{uuid.uuid4().int % 10**9}"
    found = host(f"""
        with DeepGym(slots=1) as dg:
            for _ in range(3):
                result = dg.run(environment(), {_WRECK.replace("SECONDS", seconds)!r})
                assert result.passed, result
                say("over")
                sys.stdin.readline()
                assert dg.run(environment(), {_LIST!r}).output == "['tmp'] []\\n"
            manager = dg.provider._open.manager.process.pid
            boxes = [os.readlink(f"/proc/{{manager}}/fd/{{fd}}") for fd in os.listdir(f"/proc/{{manager}}/fd")]
            say(json.dumps([os.path.dirname(path) for path in boxes if "deepgym-boxes-" in path]))
    """)
    for _ in range(3):
        assert found.said() == "over"
        assert not _running(seconds)
        found.process.stdin.write("\n")
        found.process.stdin.flush()
    (boxes,) = found.result()
    assert not os.path.exists(boxes)
    found.wait_until_gone()


def test_nothing_of_it_is_left_after_the_parent_was_killed(host: Host) -> None:
    found = host("""
        import threading
        holds = "import os, time\\ndef f(x):\\n    if os.fork() == 0:\\n        os.setsid()\\n        time.sleep(60)\\n    time.sleep(60)\\n"
        dg = DeepGym(slots=2)
        assert dg.run(environment(), RIGHT).isolation == "landlock"
        threading.Thread(target=lambda: dg.run_batch(environment(wall=60.0), [holds] * 2), daemon=True).start()
        time.sleep(1.0)
        say("ready")
        time.sleep(60)
    """)
    assert found.said() == "ready"
    found.wait_for_sandboxes(6)
    found.signal(9)
    found.wait_until_gone()


def test_the_walls_are_only_trusted_where_they_hold(host: Host) -> None:
    out, err = host(
        """
        from deepgym.exceptions import SandboxError
        with DeepGym(slots=1) as dg:
            try:
                dg.run(environment(), RIGHT)
            except SandboxError as error:
                say(str(error))
            batch = dg.run_batch(environment(), [RIGHT])
        say(json.dumps(batch.rewards))
        """,
        "--without-landlock",
    ).finish()
    told, rewards = out.splitlines()
    assert "this host can't isolate answers" in told, (out, err)
    assert "namespaces:" in told
    assert "landlock:" in told
    assert "no Landlock" in told
    assert "deepgym doctor" in told
    assert json.loads(rewards) == [None]


def test_a_loopback_task_has_no_verdict_without_a_network_namespace(host: Host) -> None:
    found = host("""
        with DeepGym(slots=1) as dg:
            result, = dg.run_batch(environment(loopback=True), [RIGHT]).results
        say(json.dumps([result.reward, result.error_type, result.error]))
    """).result()
    assert found[:2] == [None, "sandbox_error"]
    assert "loopback needs a network namespace" in found[2]


def test_the_attacks_of_the_self_test_work_where_there_are_no_walls(host: Host) -> None:
    """An attack that never works would prove nothing."""
    found = host("""
        from deepgym.providers.local import selftest
        from deepgym.providers.local.zygotes import Manager
        manager = Manager("unsafe")
        zygote = manager.zygote("solution", 1000, None, [])
        say(json.dumps(selftest._attacked(zygote)))
        zygote.close()
        manager.close()
    """).result()
    names = set(found)
    expected = {
        "read a file of this user",
        "wrote a file of this user",
        "truncated a file of this user",
        "changed a file's mode",
        "changed a file's times",
        "removed a file of this user",
        "listed a folder of this user",
        "signalled a foreign process",
        "read a foreign process's environment",
        "changed a foreign process's limits",
        "moved a foreign process",
        "opened an IP socket",
        "opened a local socket",
        "opened a netlink socket",
    }
    assert expected <= names


@pytest.mark.parametrize("host", ["user"], indirect=True)
def test_root_of_a_user_namespace_gets_namespaces_as_an_ordinary_user_does(host: Host) -> None:
    """As in a container that was started without root: its root makes no devices and has one user id."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare command")
    found = host(
        """
        with DeepGym(slots=1) as dg:
            look = "import os\\ndef f(x):\\n    print(os.getuid())\\n    return x + 1"
            result = dg.run(environment(), look)
        say(json.dumps([os.getuid(), result.score, result.isolation, result.output]))
        """,
        before=(unshare, "--user", "--map-root-user"),
    )
    assert found.result() == [0, 1.0, "namespaces", "1000\n"]
    found.wait_until_gone()


def test_every_tier_of_this_host_is_tried_for_real() -> None:
    assert missing("namespaces") is None
    assert missing("unsafe") is None
    assert TIERS == ("namespaces", "landlock", "unsafe")


@pytest.fixture
def readable() -> tuple[list[str], str]:
    """An interpreter that every user can run, and the folder of this package's dependencies."""
    import anyio

    site = str(pathlib.Path(anyio.__file__).parent.parent)
    probe = "import sys; sys.path.insert(0, sys.argv[1]); import pydantic, anyio, ctypes"
    options: dict[str, Any] = {"user": 23456, "group": 23456, "extra_groups": []} if os.getuid() == 0 else {}
    version = "{}.{}".format(*sys.version_info)
    for path in (
        os.path.realpath(sys.executable),
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ):
        command = [path, "-s"]
        try:
            subprocess.run([*command, "-c", probe, site], check=True, capture_output=True, cwd="/", **options)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command, site
    pytest.skip("there is no interpreter here that every user can run")
