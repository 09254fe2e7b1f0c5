"""Episodes that are stopped from outside: cancelled at each point of their way, closed by another thread, or
with the process that they were opened in.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from deepgym import AsyncDeepGym, DeepGym
from deepgym.environments import ToolCall
from deepgym.exceptions import DeepGymError
from deepgym.session import Trajectory

from . import episode_seams as seams
from .episode_tasks import Play, plays
from .episodes import Bench, Strike, check
from .laws import Ledger
from .processes import groups_of

__all__ = ["cancel_episodes", "close_client", "end_parent"]

_STAGES = {
    "reset": (
        "thread",
        "host",
        "zygote",
        "plan",
        "ready",
        "group",
        "turn",
        "write",
        "script",
        "send",
        "wait",
    ),
    "step 2": ("turn", "act", "send", "wait", "reply", "view"),
    "score": ("turn", "copy", "send", "wait", "reply", "thread", "end", "gone", "judge"),
}
PLACES = [(stage, point) for stage, points in _STAGES.items() for point in points]
_TESTS = Path(__file__).parents[1]


class _Cancelling(Strike):
    """Cancels the episode's scope when it passes a point."""

    def __init__(self, client: AsyncDeepGym, stage: str, point: str, scope: anyio.CancelScope) -> None:
        super().__init__(client)
        self._stage, self._point, self._scope = stage, point, scope

    def stage(self, name: str) -> None:
        self.over()
        if name == self._stage:
            self._armed.enter_context(seams.at(self._point, self._strike, 1))

    @contextlib.contextmanager
    def _strike(self) -> Iterator[None]:
        self.hit()
        if threading.current_thread() is threading.main_thread():
            self._scope.cancel()
        else:
            anyio.from_thread.run_sync(self._scope.cancel)
        yield


async def cancel_episodes(client: AsyncDeepGym, ledger: Ledger, stage: str, point: str, count: int) -> None:
    """Cancel the task that plays an episode; the client goes on, and nothing stays open."""
    rng = random.Random(f"{stage} {point}")
    bench = Bench(client, ledger)
    for number, play in enumerate(plays(count, rng)):
        note = f"cancelled in {stage} at {point}"
        result: Any = None
        with anyio.CancelScope() as scope:
            strike = _Cancelling(client, stage, point, scope)
            result = await bench.play(play, strike, whole=number % 2 == 0)
        # An answer that is there at once is never waited for.
        unmet = point == "wait" and result is not None
        ledger.law(strike.hits == 1 or unmet, "the cancellation strikes", note)
        ledger.law(scope.cancelled_caught or result is not None, "a cancellation passes through", note)
        if not scope.cancelled_caught:
            check(ledger, result, play.score, "true", note)
        assert strike.session is not None
        await _left(ledger, strike, play, note)
        ledger.struck[f"session: cancellation x {stage}"] += 1
        left = await seams.left_open(client)
        ledger.law(left == (0, 0, 0), "nothing stays open", (note, left))
    await bench.right()


async def _left(ledger: Ledger, strike: Strike, play: Play, note: str) -> None:
    """What a cancelled session says afterwards: no verdict, or the true one if only its judging was stopped."""
    assert strike.session is not None
    try:
        result = await strike.session.score()
    except DeepGymError as error:
        result = getattr(error, "result", None)
        ledger.law(
            result is None or not result.has_verdict, "a stopped episode has no verdict", (note, result)
        )
        return
    check(ledger, result, play.score, "true", f"{note}, scored again")


def close_client(ledger: Ledger, turn: int) -> None:
    """Close the client from another thread in the middle of episodes: they all come back."""
    client = DeepGym(slots=2)
    closing = threading.Thread(target=client.close)
    play = plays(1, random.Random(turn))[0]

    async def agent(trajectory: Trajectory) -> ToolCall | None:
        done = len(trajectory.turns)
        if done == turn and closing.ident is None:
            closing.start()
        return play.steps[done] if done < len(play.steps) else None

    found = client.run_episodes(play.env, agent, n=4, max_parallel=4)
    closing.join()
    ledger.law(len(found) == 4, "nothing is lost", len(found))
    for trajectory in found:
        check(ledger, trajectory.result, play.score, "true none", f"closed at turn {turn}")
    again = client.run_episodes(play.env, agent, n=1)
    check(ledger, again[0].result, play.score, "true", "the client starts anew")
    client.close()
    ledger.struck["session: client x closing"] += 1


_PARENT = """
import json, os, sys
import anyio
from faults import episode_seams as seams
from faults.episode_tasks import ENV, plays
from deepgym import AsyncDeepGym
from deepgym.providers.local import slots

async def main(folder, stage):
    slots._directory = lambda: folder
    async with AsyncDeepGym(slots=2) as client:
        session = client.session(ENV)
        await session.reset()
        await session.step("setsid sleep 98765 & sleep 98765 & (trap '' HUP; sleep 98765 &) ; true")
        def say():
            print(json.dumps(seams.pids_inside(client)), flush=True)
        if stage == "between":
            say()
            await anyio.sleep_forever()
        point = {"step": "wait", "copy": "reply"}[stage]
        import contextlib
        @contextlib.contextmanager
        def around():
            say()
            os.read(0, 1)
            yield
        with seams.at(point, around, 1):
            await (session.step("sleep 99") if stage == "step" else session.score())

anyio.run(main, *sys.argv[1:])
"""


def end_parent(ledger: Ledger, folder: str, stage: str, how: signal.Signals) -> None:
    """End the process that opened a session: nothing of the session is left."""
    command = [sys.executable, "-c", _PARENT, folder, stage]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_TESTS) as parent:
        assert parent.stdout is not None
        pids = json.loads(parent.stdout.readline())
        ledger.law(len(pids) == 2, "a manager and a session", pids)
        pidfds = [os.pidfd_open(pid) for pid in pids]
        inside = _descendants(pids[1])
        parent.send_signal(how)
        parent.wait(20)
    for fd in pidfds:
        ledger.law(_gone(fd), "no process survives its parent", stage)
        os.close(fd)
    ledger.law(_eventually(lambda: not any(map(_sleeps, inside))), "nothing of the agent's lives", inside)
    # Before a copy is begun, all of it has ended.
    ledger.law(len(inside) >= 4 or stage == "copy", "the agent had something running", inside)
    ledger.law(_eventually(lambda: not groups_of(parent.pid)), "no control group is left", parent.pid)
    ledger.struck[f"session: parent x {stage}"] += 1


def _gone(pidfd: int) -> bool:
    import select

    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    return bool(ended.poll(20_000))


def _eventually(holds: Any) -> bool:
    import time

    deadline = time.monotonic() + 20.0
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _sleeps(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return b"98765" in line.read()
    except OSError:
        return False


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as listed:
        for child in map(int, listed.read().split()):
            found += [child, *_descendants(child)]
    return found
