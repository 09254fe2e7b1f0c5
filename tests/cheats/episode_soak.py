"""Honest, lazy and hostile episodes mixed, several at once: every verdict right, and nothing left behind.

    python tests/cheats/episode_soak.py --episodes 500

prints what was played, what was wrong, and what the machine held before, meanwhile and after; its status is 1
if anything was wrong or left.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

if not __package__:  # as a program: the other modules here are found by their package's name
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    __package__ = "tests.cheats"

from deepgym import AsyncDeepGym, RunResult
from deepgym.environments import MultiTurnEnvironment

from .episode_environments import built_in, places
from .soak import _PR_SET_CHILD_SUBREAPER, Census, Report, _own_places, _settled
from .test_episodes import _CHEATS

__all__ = ["soak"]


@dataclass(frozen=True)
class _Episode:
    kind: str
    name: str
    env: MultiTurnEnvironment
    actions: Sequence[Any] = field(repr=False)


def soak(episodes: int, *, parallel: int, seed: int = 0) -> Report:
    """Play ``episodes`` in one client, ``parallel`` at a time. What they came to stands in the report."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError("orphans can't be seen")
    return anyio.run(_soak, episodes, parallel, random.Random(seed))


async def _soak(episodes: int, parallel: int, draw: random.Random) -> Report:
    report = Report(cheats=len(_CHEATS))
    report.censuses["before"] = Census.take()
    began = time.monotonic()
    async with AsyncDeepGym(max_sessions=parallel) as client:
        warm = _honest() * 2
        await _play_all(report, warm, client, parallel)
        report.censuses["warm"] = _settled(Census(0, 0, 0, 0, 0))
        await _play_all(report, [_drawn(draw) for _ in range(episodes)], client, parallel)
        await _play_all(report, warm, client, parallel)
        report.censuses["worked"] = _settled(report.censuses["warm"])
    report.seconds = time.monotonic() - began
    report.censuses["after"] = _settled(report.censuses["before"])
    return report


def _honest() -> list[_Episode]:
    return [
        _Episode("honest", "honest", place.honest, place.honest.reference or ())
        for place in (*places(), *built_in())
    ]


def _drawn(draw: random.Random) -> _Episode:
    kind = draw.choices(("honest", "wrong", "hostile"), (3, 1, 4))[0]
    if kind == "honest":
        return draw.choice(_honest())
    if kind == "wrong":
        return _Episode("wrong", "nothing", draw.choice((*places(), *built_in())).cheat, ())
    cheat = draw.choice(_CHEATS)
    return _Episode("hostile", cheat.name, draw.choice(cheat.places()).cheat, draw.choice(cheat.plays))


async def _play_all(report: Report, todo: list[_Episode], client: AsyncDeepGym, parallel: int) -> None:
    queue = iter(todo)

    async def worker() -> None:
        for episode in queue:
            report.runs += 1
            report.kinds[episode.kind] += 1
            try:
                result = await _play(client, episode)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
                report.wrong.append(f"{episode.name} on {episode.env.name}: {type(error).__name__}: {error}")
                continue
            if episode.kind == "hostile":
                report.ends[result.error_type or "score 0"] += 1
            wanted = 1.0 if episode.kind == "honest" else 0.0
            if not result.has_verdict or result.score != wanted:
                report.wrong.append(
                    f"{episode.name} on {episode.env.name}: score {result.score}, {result.error_type}: {result.error}"
                )

    async with anyio.create_task_group() as group:
        for _ in range(parallel):
            group.start_soon(worker)


async def _play(client: AsyncDeepGym, episode: _Episode) -> RunResult:
    async with client.session(episode.env) as session:
        await session.reset()
        for action in episode.actions:
            if (await session.step(action)).done:
                break
        return await session.score()


def main() -> int:
    """The program; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--parallel", type=int, default=4 * len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _own_places(folder)
        report = soak(arguments.episodes, parallel=arguments.parallel, seed=arguments.seed)
        tempfile.tempdir = None
    print(str(report).replace(" runs in ", " episodes in "))
    print(Counter(line.split(" ")[0] for line in report.wrong).most_common(20))
    return 1 if report.wrong or report.leaks else 0


if __name__ == "__main__":
    sys.exit(main())
