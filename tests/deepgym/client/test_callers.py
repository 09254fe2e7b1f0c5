"""A client's callers: threads, forks, event loops, pickles, several processes, ordinary users."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.environments import Environment, EnvironmentLimits

pytestmark = pytest.mark.local_sandbox

RIGHT = "def f(x): return x + 1"
WRONG = "def f(x): return x"
LONG = "import time\ndef f(x): time.sleep(1000)"


def test_a_client_can_be_used_again_after_it_was_closed(local_sandbox: None, env: Environment) -> None:
    client = DeepGym(slots=1)
    for _ in range(2):
        assert client.run(env, RIGHT).passed
        client.close()
    client.close()


def test_a_client_that_was_never_used_starts_nothing(script: Callable[..., Any]) -> None:
    found = script("""
        import threading
        dg = DeepGym(slots=2)
        import pickle
        pickle.dumps(dg)
        dg.close()
        say(json.dumps([threading.active_count(), os.listdir(os.environ["SLOTS"])]))
    """)
    assert found.result() == [1, []]


def test_clients_pickle_and_run_on_the_other_side(dg: DeepGym, env: Environment) -> None:
    copy = pickle.loads(pickle.dumps(dg))
    try:
        assert copy.provider.slots == 2
        assert copy.run(env, RIGHT).passed
        assert not copy.run(env, WRONG).passed
    finally:
        copy.close()
    assert dg.run(env, RIGHT).passed


def test_async_clients_pickle(env: Environment) -> None:
    async def main() -> None:
        async with pickle.loads(pickle.dumps(AsyncDeepGym(slots=1, max_parallel=3))) as client:
            assert client.max_parallel == 3
            assert (await client.run(env, RIGHT)).passed

    asyncio.run(main())


def test_threads_may_share_a_client(dg: DeepGym, env: Environment) -> None:
    found: dict[int, list[bool]] = {}

    def work(number: int) -> None:
        answers = [RIGHT, WRONG] if number % 2 else [WRONG, RIGHT]
        found[number] = [result.passed for result in dg.run_batch(env, answers * 3).results]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number % 2 == 1, number % 2 == 0] * 3 for number in range(6)}


def test_the_sync_client_works_inside_a_running_event_loop(dg: DeepGym, env: Environment) -> None:
    async def main() -> bool:
        return dg.run(env, RIGHT).passed and dg.run_batch(env, [RIGHT, WRONG]).passed == 1

    assert asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_async_client_works_on_either_event_loop(backend: str, env: Environment) -> None:
    if backend == "trio":
        pytest.importorskip("trio")

    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            assert (await client.run(env, RIGHT)).passed
            batch = await client.run_batch(env, [RIGHT, WRONG, RIGHT])
            assert [result.passed for result in batch.results] == [True, False, True]
            found = {index: result.passed async for index, result in client.stream(env, [WRONG, RIGHT])}
            assert found == {0: False, 1: True}

    anyio.run(main, backend=backend)


def test_an_async_batch_lets_the_event_loop_go_on(env: Environment) -> None:
    """Fifty ticks of another task while one run sleeps."""
    slow = "import time\ndef f(x):\n    time.sleep(1)\n    return x + 1"

    async def main() -> int:
        ticks = 0
        async with AsyncDeepGym(slots=1) as client:
            await client.run(env, RIGHT)
            task = asyncio.ensure_future(client.run(env, slow))
            while not task.done():
                await asyncio.sleep(0.005)
                ticks += 1
            assert task.result().passed
        return ticks

    assert asyncio.run(main()) > 10


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_batch_leaves_nothing_and_the_client_goes_on(backend: str, env: Environment) -> None:
    if backend == "trio":
        pytest.importorskip("trio")
    patient = env.model_copy(update={"limits": EnvironmentLimits(wall=900.0)})

    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            await client.run_batch(env, [RIGHT] * 2)
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                with anyio.move_on_after(0.3) as scope:
                    await client.run_batch(patient, [LONG] * 4)
                assert scope.cancelled_caught
                assert client.provider._open.in_use == 0  # type: ignore[attr-defined]
            batch = await client.run_batch(env, [RIGHT] * 4)
            assert batch.passed == 4
            assert len(os.listdir("/proc/self/fd")) <= before

    anyio.run(main, backend=backend)


def test_an_async_stream_that_is_left_early_stops_the_rest(env: Environment) -> None:
    from contextlib import aclosing

    patient = env.model_copy(update={"limits": EnvironmentLimits(wall=900.0)})

    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            async with aclosing(client.stream(patient, [RIGHT, LONG, LONG, LONG])) as stream:
                async for index, result in stream:
                    assert (index, result.passed) == (0, True)
                    break
            assert client.provider._open.in_use == 0  # type: ignore[attr-defined]
            assert (await client.run(env, RIGHT)).passed

    asyncio.run(main())


def test_event_loops_may_follow_one_another_on_one_client(env: Environment) -> None:
    client = AsyncDeepGym(slots=1)

    async def once() -> bool:
        return (await client.run(env, RIGHT)).passed

    assert [asyncio.run(once()) for _ in range(3)] == [True] * 3
    asyncio.run(client.close())


FORKS = {
    "os.fork": """
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                batch = dg.run_batch(environment(), [RIGHT, "def f(x): return x"])
                os.write(write, json.dumps([r.passed for r in batch.results]).encode())
                code = 0
            finally:
                os._exit(code)
        mine = [dg.run(environment(), RIGHT).passed for _ in range(5)]
        _, status = os.waitpid(child, 0)
        say(json.dumps([status, json.loads(os.read(read, 1000)), mine]))
    """,
    "multiprocessing": """
        import multiprocessing
        def work(number):
            return [r.passed for r in dg.run_batch(environment(), [RIGHT, "def f(x): return x"]).results]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            theirs = pool.map(work, range(4))
        assert theirs == [[True, False]] * 4, theirs
        say(json.dumps([0, theirs[0], [dg.run(environment(), RIGHT).passed for _ in range(5)]]))
    """,
}


@pytest.mark.parametrize("used", [True, False], ids=["used before", "unused before"])
@pytest.mark.parametrize("text", FORKS.values(), ids=FORKS)
def test_a_client_survives_a_fork_of_its_process(script: Callable[..., Any], text: str, used: bool) -> None:
    import textwrap

    start = "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\ndg = DeepGym(slots=2)\n"
    start += "assert dg.run(environment(), RIGHT).passed\n" if used else ""
    forked = script(start + textwrap.dedent(text))
    assert forked.result() == [0, [True, False], [True] * 5]
    forked.wait_until_gone()


def test_a_forked_child_that_ends_doesnt_end_its_parents_sandboxes(script: Callable[..., Any]) -> None:
    found = script("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        dg = DeepGym(slots=1)
        dg.run(environment(), RIGHT)
        manager = dg.provider._open.manager.process.pid
        child = os.fork()
        if child == 0:
            dg.close()
            sys.exit(0)  # runs what was registered for the exit
        os.waitpid(child, 0)
        passed = dg.run(environment(), RIGHT).passed
        say(json.dumps([passed, dg.provider._open.manager.process.pid == manager]))
    """)
    assert found.result() == [True, True]


def test_a_trainer_with_threads_and_memory_is_never_forked(script: Callable[..., Any]) -> None:
    found = script("""
        import threading
        ballast = bytearray(512 << 20)
        for at in range(0, len(ballast), 4096):
            ballast[at] = 1
        stop = threading.Event()
        threads = [threading.Thread(target=stop.wait) for _ in range(20)]
        for thread in threads:
            thread.start()
        dg = DeepGym(slots=2)
        passed = dg.run_batch(environment(), [RIGHT] * 10).passed
        show = "def f(x):\\n    print(open('/proc/self/statm').read())\\n    return x + 1"
        pages = int(dg.run(environment(), show).output.split()[0])
        stop.set()
        dg.close()
        say(json.dumps([passed, pages * 4096 < 200 << 20]))
    """)
    assert found.result() == [10, True]


def _most_at_once(intervals: list[tuple[float, float]]) -> int:
    moments = sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])
    count = most = 0
    for _, step in moments:
        count += step
        most = max(most, count)
    return most


def test_processes_share_the_slots_of_their_host(script: Callable[..., Any]) -> None:
    """Two processes with two slots each of the same host: never more than two answers inside at once."""
    text = """
        inside = "import time\\ndef f(x):\\n    a = time.monotonic()\\n    time.sleep(0.1)\\n    print(a, time.monotonic())\\n    return x + 1"
        dg = DeepGym(slots=2)
        dg.run_batch(environment(), [RIGHT] * 2)
        say("ready")
        batch = dg.run_batch(environment(), [inside] * 10)
        assert batch.passed == 10
        say(json.dumps([list(map(float, r.output.split())) for r in batch.results]))
    """
    pair = [script(text), script(text)]
    assert [one.said() for one in pair] == ["ready", "ready"]
    found = [[(start, end) for start, end in one.result()] for one in pair]
    assert max(min(start for start, _ in one) for one in found) < min(
        max(end for _, end in one) for one in found
    )
    assert _most_at_once(found[0] + found[1]) <= 2


def test_a_busy_process_doesnt_keep_another_one_waiting_for_long(script: Callable[..., Any]) -> None:
    """A single run gets its turn while another process's batch is far from its end."""
    busy = script("""
        dg = DeepGym(slots=1)
        count = 0
        for index, result in dg.stream(environment(), [SLOW % 0.02] * 100000):
            count += 1
            if count == 3:
                say("busy")
    """)
    assert busy.said() == "busy"
    guest = script("""
        dg = DeepGym(slots=1)
        say(json.dumps([dg.run(environment(), RIGHT).passed for _ in range(5)]))
    """)
    assert guest.result() == [True] * 5
    assert busy.process.poll() is None


# As an ordinary user.


def _ordinary() -> tuple[list[str], dict[str, Any]]:
    """A command and options that start Python as an ordinary user who can read this package."""
    if os.getuid() != 0:
        return [sys.executable], {}
    site = pathlib.Path(anyio.__file__).parent.parent
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = {"user": 23456, "group": 23456, "extra_groups": [], "cwd": "/"}
    candidates = [
        os.path.realpath(sys.executable),
        f"/usr/bin/python{version}",
        f"/usr/local/bin/python{version}",
    ]
    probe = "import sys; sys.path.insert(0, sys.argv[1]); import pydantic, anyio"
    for candidate in candidates:
        try:
            subprocess.run(
                [candidate, "-s", "-c", probe, str(site)], check=True, capture_output=True, **options
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return [candidate, "-s"], {**options, "path": str(site)}
    pytest.skip("an ordinary user can't read any interpreter with this package's dependencies")


_UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


@pytest.fixture
def as_user(script: Callable[..., Any]) -> Iterator[Callable[[str], Any]]:
    """``script``, run by an ordinary user, in a folder that this user can read."""
    command, options = _ordinary()
    probe = {key: value for key, value in options.items() if key != "path"}
    if subprocess.run([*command, "-c", _UNSHARE], check=False, **probe).returncode != 0:
        pytest.skip("ordinary users get no user namespaces here")
    with tempfile.TemporaryDirectory(prefix="deepgym-test-") as name:
        folder = pathlib.Path(name)
        slots = folder / "slots"
        slots.mkdir()
        if options:
            folder.chmod(0o755)
            os.chown(slots, 23456, 23456)
        yield lambda text: script(text, command, folder=folder, slots=str(slots), **options)


def test_an_ordinary_user_gets_the_same_verdicts(as_user: Callable[[str], Any]) -> None:
    found = as_user("""
        program = Program(source="def verify(solution): return solution.function('f')(1) == 2")
        answers = [RIGHT, "def f(x): return x", "import os\\nos._exit(2)", "while True: pass", "def f(x:"]
        with DeepGym(slots=2) as dg:
            env = environment(wall=1.0)
            own = env.model_copy(update={"verify": program})
            batches = [dg.run_batch(one, answers) for one in (env, own)]
        say(json.dumps([[[r.score, r.error_type] for r in batch.results] for batch in batches]))
    """)
    expected = [
        [1.0, None],
        [0.0, None],
        [0.0, "solution_error"],
        [0.0, "solution_timeout"],
        [0.0, "solution_error"],
    ]
    assert found.result() == [expected, expected]
    found.wait_until_gone()


LOOK = """
import os, socket, errno
def attempt(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def f(x):
    import ctypes, json
    libc = ctypes.CDLL(None)
    for number in (9, 19, 11, 15):
        attempt(lambda: os.kill(1, number))
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(json.dumps({
        "ids": [os.getuid(), os.getgid(), os.getpid(), os.getppid()],
        "caps": [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")],
        "more": [status["NoNewPrivs"].strip(), status["Seccomp"].strip()],
        "tries": [attempt(lambda: socket.socket()), attempt(lambda: open("/x", "w")),
                  attempt(lambda: os.listdir("/proc/1/fd")), attempt(lambda: open("/proc/1/mem"))],
        "calls": [libc.unshare(0x10000000), libc.mount(b"none", b"/box", b"tmpfs", 0, None),
                  libc.umount2(b"/box", 2), libc.setuid(0)],
        "there": [path for path in ("/etc/passwd", "/home", "/sys", "/var") if os.path.lexists(path)],
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    }))
    return x + 1
"""


def test_an_ordinary_users_answer_is_as_isolated(as_user: Callable[[str], Any]) -> None:
    found = as_user(f"""
        with DeepGym(slots=1) as dg:
            result = dg.run(environment(), {LOOK!r})
        assert result.passed, result
        say(result.output.strip())
    """).result()
    assert found["ids"] == [1000, 1000, 2, 0]
    assert found["caps"] == [0, 0, 0, 0]
    assert found["more"] == ["1", "2"]
    assert set(found["tries"]) <= {"EPERM", "EACCES", "EROFS"}
    assert found["calls"] == [-1] * 4
    assert found["there"] == []
    assert found["processes"] == [1, 2]


FORKS_ALL = """
import os, signal
def f(x):
    count = 0
    try:
        while True:
            if os.fork() == 0:
                signal.pause()
            count += 1
    except OSError:
        print(count)
    return x + 1
"""
FILLS_DISK = """
def f(x):
    try:
        open("big", "wb").write(b"x" * (3 << 20))
    except OSError as error:
        print(error.errno)
    return x + 1
"""


def test_an_ordinary_users_limits_hold(as_user: Callable[[str], Any]) -> None:
    found = as_user(f"""
        limits = EnvironmentLimits(wall=20.0, processes=20, disk=1 << 20)
        limited = environment().model_copy(update={{"limits": limits}})
        with DeepGym(slots=1) as dg:
            results = [dg.run(limited, answer) for answer in ({FORKS_ALL!r}, {FILLS_DISK!r})]
        say(json.dumps([r.output.split() for r in results]))
    """).result()
    assert 5 <= int(found[0][0]) <= 20
    assert found[1] == ["28"]


def test_nothing_of_an_ordinary_user_is_left_after_a_kill(as_user: Callable[[str], Any]) -> None:
    import signal

    killed = as_user("""
        class Watch:
            def on_phase(self, index, phase):
                if phase.value == "placed": say("placed")
            def on_result(self, index, result): pass
        DeepGym(slots=1).run_batch(environment(wall=300.0), [SLOW % 200], observers=[Watch()])
    """)
    assert killed.said() == "placed"
    killed.wait_for_sandboxes(3)
    killed.signal(signal.SIGKILL)
    killed.process.wait(30)
    killed.wait_until_gone()


def test_a_client_that_is_closed_by_another_thread_gives_its_runs_back_without_a_verdict(
    local_sandbox: None, env: Environment
) -> None:
    client = DeepGym(slots=2)
    patient = env.model_copy(update={"limits": EnvironmentLimits(wall=900.0)})
    placed, found = threading.Semaphore(0), []

    class Watch:
        def on_phase(self, index: int, phase: Any) -> None:
            if phase.value == "placed":
                placed.release()

        def on_result(self, index: int, result: Any) -> None: ...

    def work() -> None:
        try:
            found.append(client.run_batch(patient, [LONG] * 4, observers=[Watch()]).results)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(2):
        assert placed.acquire(timeout=30)
    client.close()
    thread.join(30)
    assert not thread.is_alive()
    assert isinstance(found[0], tuple), found
    assert [result.has_verdict for result in found[0]] == [False] * 4
    assert client.run(env, RIGHT).passed
    client.close()
