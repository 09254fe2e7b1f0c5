"""Who uses sessions: event loops, threads, forks, ordinary users; and what is left when they stop or die."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import pathlib
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.exceptions import SandboxDiedError, SandboxError, SupervisorError
from deepgym.providers.base import Act, Place, Spec
from deepgym.providers.local import LocalProvider
from deepgym.providers.local import workspace as local_workspace

pytestmark = pytest.mark.local_sandbox

PATIENCE = 30.0


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "trio":
        pytest.importorskip("trio")
    found: str = request.param
    return found


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.005)


# Cancellation.


def test_a_cancelled_step_ends_the_sandbox_and_there_is_no_verdict_from_then_on(
    backend: str, environment: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2, max_sessions=1) as adg:
            session = adg.session(environment())
            await session.reset()
            assert (await session.score()).passed
            await session.reset()
            await session.step("true")
            pool, before = adg.provider._open, descriptors()  # type: ignore[attr-defined]
            with anyio.move_on_after(0.2) as scope:
                await session.step("sleep 100")
            assert scope.cancelled_caught
            assert (len(pool.standing), pool.room.inside, pool.in_use) == (0, 0, 0)
            for call in (lambda: session.step("ls"), session.score, session.score):
                with pytest.raises(SandboxError, match="stopped") as caught:
                    await call()
                assert caught.value.result is not None
                assert (caught.value.result.has_verdict, caught.value.result.error_type) == (
                    False,
                    "cancelled",
                )
            assert session.result is None
            await session.reset()
            assert (await session.step("echo hi")).text == "hi\n"
            assert (await session.score()).passed
            await session.close()
            assert descriptors() <= before

    anyio.run(main, backend=backend)


def test_a_task_that_is_cancelled_by_asyncio_itself_leaves_nothing(environment: Callable[..., Any]) -> None:
    """No shield holds off what ``wait_for`` and ``task.cancel`` do, whatever the moment."""

    async def main() -> None:
        async with AsyncDeepGym(slots=1, max_sessions=2) as adg:
            async with adg.session(environment()) as session:
                await session.reset()
                await session.step("true")
            pool, before = adg.provider._open, descriptors()  # type: ignore[attr-defined]
            for number in range(12):
                session = adg.session(environment())
                task = asyncio.ensure_future(session.reset())
                await asyncio.sleep(0.003 * number)
                task.cancel()
                await asyncio.wait([task])
                await session.close()
            await until(lambda: not pool.standing and pool.room.inside == 0)
            async with adg.session(environment()) as session:
                await session.reset()
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(session.step("sleep 100"), 0.1)
                with pytest.raises(SandboxError, match="stopped"):
                    await session.step("ls")
            await until(lambda: not pool.standing and pool.room.inside == 0 and pool.in_use == 0)
            assert descriptors() <= before

    asyncio.run(main())


def test_a_cancellation_before_anything_was_begun_keeps_no_place(backend: str) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=1, max_sessions=1) as adg:
            provider: Any = adg.provider
            for _ in range(2):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await provider.host(Place())
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await provider.open(Spec())
            assert (provider._open.room.inside, provider._open.in_use) == (0, 0)
            with anyio.fail_after(PATIENCE):
                workspace = await provider.host(Place())
                await workspace.close()

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.02, 0.05, 0.1])
def test_a_cancelled_score_may_be_asked_for_again_or_has_no_verdict(
    backend: str, environment: Callable[..., Any], seconds: float
) -> None:
    verify = "import time\ndef verify(work):\n    work.files()\n    time.sleep(0.2)\n    return True\n"

    async def main() -> None:
        async with AsyncDeepGym(slots=1) as adg, adg.session(environment(verify)) as session:
            await session.reset()
            await session.step("true")
            with anyio.move_on_after(seconds):
                await session.score()
            found: Any = None
            try:
                found = await session.score()
            except SandboxError as error:
                found = error.result
            assert found.passed or not found.has_verdict
            assert adg.provider._open.in_use == 0  # type: ignore[attr-defined]

    anyio.run(main, backend=backend)


def test_a_loop_that_was_blocked_for_long_costs_no_agent_its_verdict(
    environment: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was there in time; it was the trainer that didn't look."""
    monkeypatch.setattr(local_workspace, "_PATIENCE", 0.2)

    async def main() -> None:
        async with AsyncDeepGym(slots=1) as adg, adg.session(environment(step=1.0)) as session:
            await session.reset()
            seen = []

            async def step() -> None:
                seen.append(await session.step("sleep 0.05; echo hi"))

            async with anyio.create_task_group() as group:
                group.start_soon(step)
                await anyio.sleep(0.03)
                time.sleep(2.0)
            assert seen[0].text == "hi\n"
            assert (await session.score()).passed

    anyio.run(main)


async def _no_watch(of: object) -> None:
    raise OSError(errno.ENOSPC, "no more watches")


def test_a_host_without_a_watch_to_spare_costs_no_agent_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_workspace.anyio, "wait_readable", _no_watch)
    monkeypatch.setattr(local_workspace.anyio, "wait_writable", _no_watch)

    async def main() -> None:
        workspace = await provider.host(Place())
        ran = await workspace.act(Act("bash", b"sleep 0.1; head -c 1000000 /dev/zero > big; echo hi"))
        assert ran.output == b"hi\n"
        assert len(await workspace.copy(last=True, room=1 << 24, files=100)) > 1_000_000
        await workspace.close()

    provider = LocalProvider(slots=1)
    try:
        anyio.run(main)
    finally:
        anyio.run(provider.close)


def test_a_silent_sandbox_is_given_up_on_a_host_without_a_watch_to_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_workspace.anyio, "wait_readable", _no_watch)
    monkeypatch.setattr(local_workspace, "_PATIENCE", 0.2)

    async def main() -> None:
        workspace = await provider.host(Place())
        signal.pidfd_send_signal(workspace._standing._zygote.pidfd, signal.SIGSTOP)
        with anyio.fail_after(30), pytest.raises(SandboxDiedError, match="silent"):
            await workspace.act(Act("bash", b"true", seconds=0.1))
        await workspace.close()

    provider = LocalProvider(slots=1)
    try:
        anyio.run(main)
    finally:
        anyio.run(provider.close)


# Closing.


def test_closing_a_session_in_the_middle_of_its_step_has_no_verdict(
    backend: str, environment: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=1) as adg:
            session = adg.session(environment())
            await session.reset()
            await session.step("true")
            errors: list[BaseException] = []

            async def step() -> None:
                try:
                    await session.step("sleep 100")
                except SandboxError as error:
                    errors.append(error)

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as group:
                    group.start_soon(step)
                    await anyio.sleep(0.1)
                    await session.close()
            assert isinstance(errors[0], SupervisorError)
            assert session.result is None

    anyio.run(main, backend=backend)


def test_closing_the_client_closes_its_sessions_and_no_verdict_comes_of_it(
    backend: str, environment: Callable[..., Any]
) -> None:
    async def main() -> None:
        adg = AsyncDeepGym(slots=2)
        sessions = [adg.session(environment()) for _ in range(2)]
        for session in sessions:
            await session.reset()
            await session.step("true")
        errors: list[BaseException] = []

        async def step() -> None:
            try:
                await sessions[0].step("sleep 100")
            except SandboxError as error:
                errors.append(error)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(step)
                await anyio.sleep(0.1)
                await adg.close()
        assert len(errors) == 1
        for session in sessions:
            for call in (lambda session=session: session.step("ls"), session.score):  # type: ignore[misc]
                with pytest.raises(SandboxError) as caught:
                    await call()
                assert caught.value.result is not None
                assert not caught.value.result.has_verdict
            await session.close()
        # It starts anew when it is used again.
        async with adg.session(environment()) as session:
            await session.reset()
            assert (await session.step("echo hi")).text == "hi\n"
        await adg.close()

    anyio.run(main, backend=backend)


def test_sessions_of_a_client_that_is_closed_by_another_thread_raise(environment: Callable[..., Any]) -> None:
    client = DeepGym(slots=1)
    session = client.session(environment())
    session.reset()
    session.step("true")
    errors: list[BaseException] = []

    def step() -> None:
        try:
            session.step("sleep 100")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    time.sleep(0.2)
    client.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert isinstance(errors[0], SandboxError)
    with pytest.raises(SandboxError):
        session.score()
    session.close()
    client.close()


def test_event_loops_may_follow_one_another_on_one_client(environment: Callable[..., Any]) -> None:
    adg = AsyncDeepGym(slots=1)

    async def once() -> bool:
        async with adg.session(environment()) as session:
            await session.reset()
            await session.step("true")
            return (await session.score()).passed

    assert [asyncio.run(once()) for _ in range(2)] == [True] * 2
    asyncio.run(adg.close())


def test_threads_may_share_a_client(dg: DeepGym, environment: Callable[..., Any]) -> None:
    found: dict[int, str] = {}

    def play(number: int) -> None:
        with dg.session(environment()) as session:
            session.reset()
            session.step(f"n={number}; sleep 0.02")
            found[number] = session.step("echo $n").text + str(session.score().passed)

    threads = [threading.Thread(target=play, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\nTrue" for number in range(6)}


def test_a_client_with_open_sessions_pickles_without_them(
    dg: DeepGym, play: Callable[..., Any], environment: Callable[..., Any]
) -> None:
    agent = play()
    with pickle.loads(pickle.dumps(dg)) as copy, copy.session(environment()) as session:
        session.reset()
        assert session.step("echo hi").text == "hi\n"
    assert agent("echo still").text == "still\n"


def test_runs_and_sessions_share_the_slots(environment: Callable[..., Any]) -> None:
    from deepgym.environments import Case, Cases, Environment

    env = Environment(name="t", task="t", verify=Cases(function="f", cases=(Case(args=(1,), expected=2),)))

    async def main() -> None:
        async with AsyncDeepGym(slots=1) as adg, adg.session(environment()) as session:
            await session.reset()
            results: list[Any] = []

            async def run() -> None:
                results.append(await adg.run(env, "def f(x): return x + 1"))

            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(run)
                    group.start_soon(session.step, "sleep 0.02")
            assert [result.passed for result in results] == [True] * 3
            # An open session that does nothing is in no run's way.
            assert (await adg.run(env, "def f(x): return x + 1")).passed

    anyio.run(main)


# Processes that stop or die.


def test_a_forgotten_client_leaves_no_process(script: Callable[..., Any]) -> None:
    running = script("""
        dg = DeepGym(slots=1)
        session = dg.session(episode())
        session.reset()
        session.step("sleep 1000 & echo hi")
        del session, dg
        say("forgotten")
        while True:  # the client's thread may have a hold on its last call for a moment
            gc.collect()
            time.sleep(0.05)
    """)
    assert running.said() == "forgotten"
    running.wait_until_gone()


def test_nothing_is_left_after_a_client_was_closed_or_just_dropped(script: Callable[..., Any]) -> None:
    closed = script("""
        dg = DeepGym(slots=1)
        session = dg.session(episode())
        session.reset()
        session.step("sleep 1000 & echo hi")
        dg.close()
        say("closed")
        time.sleep(600)
    """)
    dropped = script("""
        session = DeepGym(slots=1).session(episode())
        session.reset()
        session.step("sleep 1000 & echo hi")
    """)
    assert closed.said() == "closed"
    closed.wait_until_gone()
    assert dropped.finish() == ("", "")
    assert dropped.process.returncode == 0
    dropped.wait_until_gone()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_nothing_is_left_after_the_parent_was_killed(script: Callable[..., Any], number: int) -> None:
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    parent = script("""
        dg = DeepGym(slots=2)
        sessions = [dg.session(episode(step=300.0)) for _ in range(2)]
        for session in sessions:
            session.reset()
            session.step("for n in $(seq 64); do trap '' $n 2>/dev/null; done; (setsid sleep 1000 &) ; sleep 1000 &")
        say("ready")
        sessions[0].step("sleep 1000")
    """)
    assert parent.said() == "ready"
    parent.wait_for_sandboxes(3)
    parent.signal(number)
    parent.process.wait(PATIENCE)
    parent.wait_until_gone()
    assert pathlib.Path("/proc/self/mountinfo").read_text() == mounts


def test_ctrl_c_stops_a_step_without_a_verdict_and_the_client_goes_on(script: Callable[..., Any]) -> None:
    running = script("""
        dg = DeepGym(slots=1, max_sessions=1)
        session = dg.session(episode(step=300.0))
        session.reset()
        session.step("true")
        say("ready")
        try:
            session.step("sleep 1000")
        except KeyboardInterrupt:
            said = []
            for call in (lambda: session.step("ls"), session.score):
                try:
                    call()
                except Exception as error:
                    said.append([type(error).__name__, error.result.has_verdict])
            session.reset()
            text = session.step("echo hi").text
            say(json.dumps([said, text, session.score().passed]))
    """)
    assert running.said() == "ready"
    time.sleep(0.2)
    running.signal(signal.SIGINT)
    assert running.result() == [[["SandboxError", False]] * 2, "hi\n", True]
    running.wait_until_gone()


def test_ctrl_c_that_nobody_catches_ends_the_process_and_leaves_nothing(script: Callable[..., Any]) -> None:
    running = script("""
        with DeepGym(slots=1) as dg, dg.session(episode(step=300.0)) as session:
            session.reset()
            say("ready")
            session.step("trap '' INT; sleep 1000")
    """)
    assert running.said() == "ready"
    time.sleep(0.2)
    running.signal(signal.SIGINT)
    _, err = running.finish()
    assert running.process.returncode != 0
    assert err.count("KeyboardInterrupt") >= 1
    running.wait_until_gone()


def test_a_forked_child_has_sessions_of_its_own_and_leaves_its_parents_alone(
    script: Callable[..., Any],
) -> None:
    running = script("""
        dg = DeepGym(slots=2, max_sessions=1)
        session = dg.session(episode())
        session.reset()
        session.step("x=1")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            found = []
            try:
                session.step("echo $x")
            except Exception as error:
                found.append([type(error).__name__, error.result is None or error.result.has_verdict])
            own = dg.session(episode())
            own.reset()
            found.append(own.step("echo own").text)
            found.append(own.score().passed)
            own.close()
            session.close()
            dg.close()
            os.write(write, json.dumps(found).encode())
            sys.exit(0)  # runs what was registered for the exit
        _, status = os.waitpid(child, 0)
        theirs = json.loads(os.read(read, 1000))
        say(json.dumps([status, theirs, session.step("echo $x").text, session.score().passed]))
    """)
    status, theirs, text, passed = running.result()
    assert (status, text, passed) == (0, "1\n", True)
    assert theirs[1:] == ["own\n", True]
    assert theirs[0][1] is False
    running.wait_until_gone()


def test_a_fork_while_others_wait_for_room_holds_no_child_up(script: Callable[..., Any]) -> None:
    running = script("""
        import threading
        dg = DeepGym(slots=1, max_sessions=1)
        session = dg.session(episode())
        session.reset()
        waiting = [threading.Thread(target=dg.session(episode()).reset, daemon=True) for _ in range(3)]
        for one in waiting:
            one.start()
        while len(dg.provider._open.room._waiting) < 3:
            time.sleep(0.005)
        child = os.fork()
        if child == 0:
            own = dg.session(episode())
            own.reset()
            passed = own.score().passed
            own.close()
            os._exit(0 if passed else 1)
        say(json.dumps(os.waitpid(child, 0)[1]))
        os._exit(0)
    """)
    assert running.result() == 0
    running.wait_until_gone()


def test_two_processes_sessions_have_users_of_their_own(script: Callable[..., Any]) -> None:
    """Where the kernel counts a user's processes over all namespaces, one's fork bomb is the other's, too."""
    text = """
        dg = DeepGym(slots=1)
        session = dg.session(episode())
        session.reset()
        session.step("sleep 1000 &")
        say("ready")
        time.sleep(600)
    """
    if os.getuid() != 0:
        pytest.skip("an ordinary user's sandboxes have but one user id")
    pair = [script(text), script(text)]
    assert [one.said() for one in pair] == ["ready", "ready"]
    users = [_users(one.sandboxes()) for one in pair]
    assert users[0]
    assert not users[0] & users[1]


def _users(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        try:
            found.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            continue
        with open(f"/proc/{pid}/status") as status:
            found.update(int(one) for line in status if line.startswith("Uid:") for one in line.split()[1:])
    return found - {0}


def test_descriptors_processes_and_groups_dont_grow_over_many_sessions(script: Callable[..., Any]) -> None:
    running = script("""
        dg = DeepGym(slots=1)
        def once(number):
            with dg.session(episode(step=0.2, processes=16)) as session:
                session.reset()
                session.step(["echo hi", "kill -9 -1", "exit", "sleep 100", "exec >&- 2>&-", "yes | head -c 1000000"][number % 6])
                session.step({"name": "read_file", "arguments": {"path": "none"}})
                if number % 3:
                    assert session.score().passed
        def count():
            gc.collect()
            return len(os.listdir("/proc/self/fd"))
        for number in range(6):
            once(number)
        before = count()
        for number in range(12):
            once(number)
        say(json.dumps([before, count()]))
        time.sleep(600)
    """)
    import json

    before, after = json.loads(running.said())
    assert after <= before
    # A manager, and the zygotes of the one slot.
    assert len(running.sandboxes()) == 3
    assert len(running.groups()) <= 2 * 2


def test_a_process_without_descriptors_left_has_no_verdicts_and_leaks_none(
    script: Callable[..., Any],
) -> None:
    running = script("""
        import resource
        dg = DeepGym(slots=1)
        def play():
            with dg.session(episode()) as session:
                session.reset()
                session.step("true")
                return session.score().passed
        assert play()
        have = len(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        found = []
        for room in range(8):
            resource.setrlimit(resource.RLIMIT_NOFILE, (have + room, hard))
            try:
                found.append(play())
            except Exception as error:
                found.append(getattr(getattr(error, "result", None), "has_verdict", "none"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        passed = play()
        gc.collect()
        say(json.dumps([found, passed, len(os.listdir("/proc/self/fd")) - have]))
    """)
    found, passed, grown = running.result()
    assert found[0] is False
    assert set(found) <= {True, False}
    assert passed
    assert grown <= 0


# As an ordinary user.


@pytest.fixture
def as_user(script: Callable[..., Any], beside: Callable[[str], Any]) -> Iterator[Callable[[str], Any]]:
    """``script``, run by an ordinary user, in a folder that this user can read."""
    import subprocess

    callers = beside("client/test_callers.py")
    command, options = callers._ordinary()
    probe = {key: value for key, value in options.items() if key != "path"}
    if subprocess.run([*command, "-c", callers._UNSHARE], check=False, **probe).returncode != 0:
        pytest.skip("ordinary users get no user namespaces here")
    with tempfile.TemporaryDirectory(prefix="deepgym-test-") as name:
        folder = pathlib.Path(name)
        slots = folder / "slots"
        slots.mkdir()
        if options:
            folder.chmod(0o755)
            os.chown(slots, 23456, 23456)
        yield lambda text: script(text, command, folder=folder, slots=str(slots), **options)


def test_an_ordinary_user_plays_the_same_episodes(as_user: Callable[[str], Any]) -> None:
    running = as_user("""
        verify = "def verify(work):\\n    return work.text('a') == '1\\\\n' and work.function('m', 'f')(1) == 2 and work.run(['cat', 'a']).stdout == '1\\\\n'"
        with DeepGym(slots=2) as dg, dg.session(episode(verify, files={"b": "x"}, setup="cp b c; chmod 000 c")) as session:
            session.reset()
            found = [session.step("id -u; pwd; x=1; cd /tmp; ls /box/work").text, session.step("pwd; echo $x > ~/../work/a").text]
            found.append(session.step({"name": "write_file", "arguments": {"path": "m.py", "content": "def f(x): return x + 1"}}).text)
            found.append(session.step({"name": "read_file", "arguments": {"path": "a"}}).text)
            found.append(session.step({"name": "read_file", "arguments": {"path": "c"}}).text)
            found.append(session.step({"name": "python", "arguments": {"code": "print(open('a').read())"}}).text)
            found.append(session.step("echo hi > /dev/stderr; exec >log 2>&1; sleep 100 &").text)
            result = session.score()
        say(json.dumps([found, result.passed, result.error]))
    """)
    found, passed, error = running.result()
    assert found[0] == "1000\n/box/work\nb\nc\n"
    assert found[1] == "/tmp\n"
    assert found[2].startswith("wrote")
    assert found[3] == "1\n"
    assert "Permission denied" in found[4]
    assert found[5] == "1\n\n"
    assert found[6].startswith("hi\n")
    assert passed, error
    running.wait_until_gone()


LOOK = """
import ctypes, errno, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *arguments):
    ctypes.set_errno(0)
    try:
        found = call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return errno.errorcode[ctypes.get_errno()] if found == -1 and ctypes.get_errno() else "done"
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
for number in range(1, 65):
    attempt(os.kill, 1, number)
print(json.dumps({
    "ids": [os.getuid(), os.getgid()],
    "caps": [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")],
    "more": [status["NoNewPrivs"].strip(), status["Seccomp"].strip()],
    "tries": [attempt(open, "/x", "w"), attempt(os.listdir, "/proc/1/fd"), attempt(open, "/proc/1/mem"),
              attempt(open, "/proc/1/environ"), attempt(lambda: open("/proc/1/oom_score_adj", "w").write("1000")),
              attempt(lambda: libc.prlimit(1, 7, ctypes.create_string_buffer(16), None)), attempt(lambda: os.sched_setaffinity(1, {0})),
              attempt(libc.ptrace, 16, 1, None, None)],
    "calls": [libc.unshare(0x10000000), libc.mount(b"none", b"/box", b"tmpfs", 0, None), libc.umount2(b"/box/work", 2), libc.setuid(0), libc.setgroups(0, None)],
    "there": [path for path in ("/etc/passwd", "/home", "/sys", "/var") if os.path.lexists(path)],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "network": open("/proc/net/dev").read().count(":"),
}))
"""


def test_an_ordinary_users_agent_is_as_isolated(as_user: Callable[[str], Any]) -> None:
    running = as_user(f"""
        with DeepGym(slots=1) as dg, dg.session(episode()) as session:
            session.reset()
            text = session.step({{"name": "python", "arguments": {{"code": {LOOK!r}}}}}).text
            after = session.step("echo next").text
        say(json.dumps([json.loads(text), after]))
    """)
    found, after = running.result()
    assert after == "next\n"
    assert found["ids"] == [1000, 1000]
    assert found["caps"] == [0] * 4
    assert found["more"] == ["1", "2"]
    assert set(found["tries"]) <= {"EPERM", "EACCES", "EROFS"}, found["tries"]
    assert found["calls"] == [-1] * 5
    assert found["there"] == []
    assert found["processes"] == 2
    assert found["network"] == 1


def test_an_ordinary_users_sessions_dont_share_a_fork_bomb(as_user: Callable[[str], Any]) -> None:
    running = as_user("""
        bomb = "import os, time\\ntry:\\n    while True:\\n        if os.fork() == 0: time.sleep(1000)\\nexcept OSError:\\n    print('full')"
        fork = "import os\\nif os.fork() == 0: os._exit(0)\\nos.wait()\\nprint('forked')"
        def python(session, code):
            return session.step({"name": "python", "arguments": {"code": code}}).text
        with DeepGym(slots=2) as dg:
            sessions = [dg.session(episode(processes=24)) for _ in range(3)]
            for session in sessions:
                session.reset()
            found = [python(sessions[0], bomb)]
            found += [python(session, fork) for session in sessions[1:]]
            found.append(sessions[1].step("/bin/echo program").text)
            found.append(python(sessions[1], bomb))
            found.append(sessions[0].step("echo next").text)
            found.append(python(sessions[2], fork))
            scores = [session.score().passed for session in sessions]
            again = dg.session(episode(processes=24))
            again.reset()
            found.append(python(again, fork))
        say(json.dumps([found, scores]))
    """)
    found, scores = running.result()
    assert found == [
        "full\n",
        "forked\n",
        "forked\n",
        "program\n",
        "full\n",
        "next\n",
        "forked\n",
        "forked\n",
    ]
    assert scores == [True] * 3
    running.wait_until_gone()
