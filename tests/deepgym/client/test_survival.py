"""What is left, and what is said, when processes die around a batch."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment, EnvironmentLimits, Program
from deepgym.providers.local import LocalProvider

pytestmark = pytest.mark.local_sandbox

PATIENCE = 30.0
RIGHT = "def f(x): return x + 1"
SLOW = "import time\ndef f(x):\n    time.sleep(0.5)\n    return x + 1"
#: Long enough that a zygote killed 0.3 s after the placing dies with the answer in play.
LONG = "import time\ndef f(x):\n    time.sleep(5)\n    return x + 1"


@pytest.fixture
def client(local_sandbox: None) -> Iterator[DeepGym]:
    with DeepGym(slots=2) as one:
        yield one


def slots_of(client: DeepGym) -> dict[int, Any]:
    provider = client.provider
    assert isinstance(provider, LocalProvider)
    return provider._open.slots


class KillOn:
    """An observer that kills zygotes when a run reaches a phase, ``times`` times."""

    def __init__(
        self, client: DeepGym, index: int, times: int, side: str = "solution", after: float = 0.0
    ) -> None:
        self.client, self.index, self.left, self.side, self.after = client, index, times, side, after
        self.starts: list[int] = []
        self.results: list[int] = []

    def on_phase(self, index: int, phase: Phase) -> None:
        if phase is Phase.QUEUED:
            self.starts.append(index)
        if phase is Phase.PLACED and index == self.index and self.left > 0:
            self.left -= 1
            if self.after:
                threading.Timer(self.after, self.kill).start()
            else:
                self.kill()

    def kill(self) -> None:
        for slot in list(slots_of(self.client).values()):
            zygote = getattr(slot, self.side)
            if zygote is not None:
                signal.pidfd_send_signal(zygote.pidfd, signal.SIGKILL)

    def on_result(self, index: int, result: RunResult) -> None:
        self.results.append(index)


@pytest.mark.parametrize("after", [0.0, 0.2], ids=["at once", "in play"])
def test_a_run_whose_zygote_was_killed_is_graded_once_more_and_keeps_its_verdict(
    client: DeepGym, env: Environment, after: float
) -> None:
    killer = KillOn(client, 0, 1, after=after)
    (result,) = client.run_batch(env, [SLOW], observers=[killer]).results
    assert result.passed, result.error
    assert killer.starts == [0, 0]


def test_a_wrong_answer_stays_wrong_when_its_zygote_was_killed(client: DeepGym, env: Environment) -> None:
    killer = KillOn(client, 0, 1)
    (result,) = client.run_batch(env, ["def f(x): return x"], observers=[killer]).results
    assert (result.score, result.has_verdict, result.error_type) == (0.0, True, None)


def test_every_run_in_flight_is_graded_once_more(client: DeepGym, env: Environment) -> None:
    client.run_batch(env, [RIGHT] * 2)
    killer = KillOn(client, 1, 1, after=0.2)
    batch = client.run_batch(env, [SLOW, SLOW], observers=[killer], max_parallel=2)
    assert [result.passed for result in batch.results] == [True, True]
    # A start on a zygote that was just killed and hasn't died yet costs one more.
    assert all(killer.starts.count(index) in (2, 3) for index in (0, 1))


def test_the_run_whose_zygote_dies_again_is_a_judged_zero_and_its_siblings_dont_move(
    client: DeepGym, env: Environment
) -> None:
    client.run_batch(env, [RIGHT] * 2)
    killer = KillOn(client, 1, 2, after=0.3)
    batch = client.run_batch(env, [RIGHT, LONG, RIGHT], observers=[killer])
    result = batch.results[1]
    assert (result.error_type, result.score, result.has_verdict) == ("policy_sandbox_failure", 0.0, True)
    assert [one.passed for one in batch.results] == [True, False, True]
    assert killer.starts.count(1) in (2, 3)


def test_a_killed_verifier_zygote_is_graded_once_more_too(client: DeepGym) -> None:
    source = (
        "import time\ndef verify(solution):\n    time.sleep(0.4)\n    return solution.function('f')(1) == 2"
    )
    env = Environment(name="t", task="t", verify=Program(source=source), limits=EnvironmentLimits(wall=20.0))
    killer = KillOn(client, 0, 1, side="verifier", after=0.1)
    (result,) = client.run_batch(env, [RIGHT], observers=[killer]).results
    assert result.passed, result.error
    assert killer.starts == [0, 0]


def test_the_next_run_works_after_the_zygotes_were_killed_between_runs(
    client: DeepGym, env: Environment
) -> None:
    client.run_batch(env, [RIGHT] * 4)
    KillOn(client, 0, 1).kill()
    time.sleep(0.1)
    batch = client.run_batch(env, [RIGHT] * 4)
    assert batch.passed == 4


def test_the_next_run_works_after_the_manager_was_killed(client: DeepGym, env: Environment) -> None:
    client.run_batch(env, [RIGHT] * 4)
    provider = client.provider
    assert isinstance(provider, LocalProvider)
    assert provider._open.manager is not None
    provider._open.manager.process.kill()
    time.sleep(0.1)
    batch = client.run_batch(env, [RIGHT] * 4)
    assert [result.error for result in batch.results] == [None] * 4
    assert batch.passed == 4


def test_runs_in_flight_survive_their_managers_death(client: DeepGym, env: Environment) -> None:
    provider = client.provider
    assert isinstance(provider, LocalProvider)
    client.run_batch(env, [RIGHT] * 2)
    assert provider._open.manager is not None
    threading.Timer(0.2, provider._open.manager.process.kill).start()
    batch = client.run_batch(env, [SLOW] * 4, max_parallel=2)
    assert [result.passed for result in batch.results] == [True] * 4, [
        result.error for result in batch.results
    ]


BUSY = """
class Watch:
    def on_phase(self, index, phase):
        if phase.value == "placed":
            say("placed", index)
    def on_result(self, index, result):
        say("result", index)
"""


def _started(script: Any, runs: int) -> None:
    placed = 0
    while placed < runs:
        placed += script.said().startswith("placed")


@pytest.mark.parametrize("kind", ["cases", "program", "program on files"])
def test_nothing_is_left_after_the_parent_was_killed_in_the_middle_of_a_batch(
    script: Callable[..., Any], kind: str
) -> None:
    make = {
        "cases": "env = environment(wall=300.0)",
        "program": "env = environment(wall=300.0).model_copy(update={'verify': Program(source="
        "'def verify(solution): return solution.function(\"f\")(1) == 2')})",
        "program on files": "env = environment(wall=300.0, files={'a': 'b'}, loopback=True)",
    }[kind]
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    parent = script(
        BUSY + f"\n{make}\nDeepGym(slots=2).run_batch(env, [SLOW % 200] * 4, observers=[Watch()])"
    )
    _started(parent, 2)
    parent.wait_for_sandboxes(5)
    parent.signal(signal.SIGKILL)
    parent.process.wait(PATIENCE)
    parent.wait_until_gone()
    assert pathlib.Path("/proc/self/mountinfo").read_text() == mounts


def test_daemons_of_an_answer_die_with_the_parent_too(script: Callable[..., Any]) -> None:
    answer = """
import os, signal, time
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(1)
def f(x): time.sleep(1000)
"""
    run = f"\nDeepGym(slots=1).run_batch(environment(wall=300.0), [{answer!r}], observers=[Watch()])"
    parent = script(BUSY + run)
    _started(parent, 1)
    parent.wait_for_sandboxes(6)
    parent.signal(signal.SIGKILL)
    parent.process.wait(PATIENCE)
    parent.wait_until_gone()


def test_nothing_is_left_after_a_client_was_closed_or_just_dropped(script: Callable[..., Any]) -> None:
    closed = script("""
        with DeepGym(slots=2) as dg:
            assert dg.run_batch(environment(), [RIGHT] * 4).passed == 4
        say("closed")
        time.sleep(600)
    """)
    assert closed.said() == "closed"
    closed.wait_until_gone()
    dropped = script("""
        dg = DeepGym(slots=2)
        assert dg.run_batch(environment(), [RIGHT] * 4).passed == 4
    """)
    assert dropped.finish() == ("", "")
    assert dropped.process.returncode == 0
    dropped.wait_until_gone()


def test_ctrl_c_returns_what_was_finished_and_leaves_nothing(script: Callable[..., Any]) -> None:
    batch = script(
        BUSY
        + """
from deepgym.exceptions import Interrupted
env = environment(wall=300.0)
dg = DeepGym(slots=2)
try:
    dg.run_batch(env, [RIGHT, "def f(x): return x", SLOW % 200, SLOW % 200, RIGHT], observers=[Watch()])
except Interrupted as stop:
    held = dg.provider._open.in_use
    again = dg.run(env, RIGHT).passed
    say(json.dumps({"results": [(r.passed, r.has_verdict, r.error_type) for r in stop.batch.results],
                    "keyboard": isinstance(stop, KeyboardInterrupt), "held": held, "again": again}))
"""
    )
    _started(batch, 4)
    time.sleep(0.1)
    batch.signal(signal.SIGINT)
    found = batch.result()
    assert found["results"] == [
        [True, True, None],
        [False, True, None],
        [False, False, "cancelled"],
        [False, False, "cancelled"],
        [False, False, "cancelled"],
    ]
    assert found["keyboard"]
    assert found["held"] == 0
    assert found["again"]
    batch.wait_until_gone()


def test_ctrl_c_that_nobody_catches_ends_the_process_and_leaves_nothing(script: Callable[..., Any]) -> None:
    batch = script(
        BUSY + "\nDeepGym(slots=2).run_batch(environment(wall=300.0), [SLOW % 200] * 4, observers=[Watch()])"
    )
    _started(batch, 2)
    batch.signal(signal.SIGINT)
    _, err = batch.finish()
    assert batch.process.returncode != 0
    assert "Interrupted" in err
    batch.wait_until_gone()


def test_sigterm_ends_the_process_and_leaves_nothing(script: Callable[..., Any]) -> None:
    batch = script(
        BUSY + "\nDeepGym(slots=2).run_batch(environment(wall=300.0), [SLOW % 200] * 4, observers=[Watch()])"
    )
    _started(batch, 2)
    batch.signal(signal.SIGTERM)
    batch.finish()
    batch.wait_until_gone()


def test_descriptors_processes_and_groups_dont_grow_over_many_mixed_runs(script: Callable[..., Any]) -> None:
    counting = script("""
        def descriptors():
            return len(os.listdir("/proc/self/fd"))
        program = Program(source="def verify(solution): return solution.function('f')(1) == 2")
        env, own = environment(wall=2.0), environment(wall=2.0).model_copy(update={"verify": program})
        answers = [RIGHT, "def f(x): return x", "def f(x:", "import os\\nos._exit(3)", "import os\\nos.kill(os.getpid(), 9)",
                   "import os\\nos.write(3, b'x' * 70000)", "import os\\nif os.fork() == 0:\\n    import time; time.sleep(99)\\n" + RIGHT,
                   "print('x' * 100000)\\n" + RIGHT, "1 / 0", ""]
        dg = DeepGym(slots=2)
        for one in (env, own):
            dg.run_batch(one, answers)
        say(descriptors())
        for _ in range(15):
            for one in (env, own):
                batch = dg.run_batch(one, answers)
                assert batch.judged_count == 10, [r.error for r in batch.results]
        say(descriptors())
        sys.stdin.read() if False else time.sleep(600)
    """)
    before = int(counting.said())
    after = int(counting.said())
    assert after == before
    assert len(counting.sandboxes()) == 5  # a manager, and for each of two slots two zygotes


def test_a_killed_parents_slots_are_free_at_once(script: Callable[..., Any], tmp_path: Any) -> None:
    holder = script(
        BUSY + "\nDeepGym(slots=1).run_batch(environment(wall=300.0), [SLOW % 200], observers=[Watch()])"
    )
    _started(holder, 1)
    waiting = script("say('asking')\nsay(json.dumps(DeepGym(slots=1).run(environment(), RIGHT).passed))")
    assert waiting.said() == "asking"
    time.sleep(0.3)
    assert waiting.process.poll() is None
    holder.signal(signal.SIGKILL)
    assert waiting.result() is True


def test_the_slot_folder_is_private_and_refused_if_it_is_somebody_elses(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepgym.exceptions import SandboxError
    from deepgym.providers.local import slots

    monkeypatch.undo()
    monkeypatch.setattr(slots.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(
        slots.os.path, "isdir", lambda path: False if path == "/tmp" else os.path.exists(path)
    )
    monkeypatch.setattr(slots.os, "getuid", lambda: 4242)
    (tmp_path / "deepgym-4242").symlink_to(tmp_path)
    folder = _original_directory(slots)
    with pytest.raises(SandboxError, match="belongs to somebody else"):
        folder()


def _original_directory(slots: Any) -> Callable[[], str]:
    """The module's own function, whatever a fixture put in its place."""
    import importlib.util

    spec = importlib.util.find_spec(slots.__name__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    found: Callable[[], str] = fresh._directory
    return found


def test_a_process_without_descriptors_left_has_no_verdicts_and_leaks_none(
    script: Callable[..., Any],
) -> None:
    running = script("""
        import resource
        dg, env = DeepGym(slots=1), environment()
        assert dg.run(env, RIGHT).passed
        have = len(os.listdir("/proc/self/fd"))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        verdicts, held = [], []
        for room in range(8):
            resource.setrlimit(resource.RLIMIT_NOFILE, (have + room, hard))
            (result,) = dg.run_batch(env, [RIGHT]).results
            verdicts.append(result.reward)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        passed = dg.run(env, RIGHT).passed
        say(json.dumps([verdicts, passed, len(os.listdir("/proc/self/fd")) - have]))
    """)
    verdicts, passed, grown = running.result()
    assert verdicts[0] is None
    assert set(verdicts) <= {None, 1.0}
    assert passed
    assert grown <= 0
