"""What the rewards for verl cost beside grading the same answers with ``run_batch``.

    python bench/verl.py [--rounds 7] [--calls 200] [--imports 5] [--profile] [--json] [--guard]

200 calls of ``compute_score`` at once in one event loop, as a reward worker of verl's makes them, each with a
different answer to ``coin_change`` with 25 cases, against one batch of the same answers by the same client:
CPU milliseconds, medians over interleaved rounds. In the same event loop a heartbeat of 5 ms: its longest gap
is how long another sample waited for its turn, most of it for the first steps of all 200 calls, which the
event loop does in one go; the gap while the batch runs in a thread is the machine's own. Then, where verl is
installed, the CPU time of ``import verl`` with this package's plugin and without.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from meter import Meter

from deepgym import load_environment
from deepgym.environments import Cases, Environment
from deepgym_verl import make_verl_compute_score, versions
from deepgym_verl.judge import judge_for
from deepgym_verl.options import options_of

#: What the calls may cost, as a multiple of the batch's CPU time.
TARGET = 1.15
#: And ``import verl`` with the plugin, as a multiple of the time without.
IMPORT_TARGET = 1.05
BEAT = 0.005


def environment() -> Environment:
    """``coin_change`` with 25 cases."""
    env = load_environment("coin_change")
    assert isinstance(env.verify, Cases)
    cases = (env.verify.cases * 25)[:25]
    return env.model_copy(update={"verify": env.verify.model_copy(update={"cases": cases})})


def answers(env: Environment, count: int, turn: int) -> list[str]:
    """So many right answers, no two of them the same."""
    return [f"{env.reference}\n# {turn} {number}\n" for number in range(count)]


async def longest_gap(over: asyncio.Event) -> float:
    """Milliseconds that the event loop was late at most, at a beat of 5 ms, until ``over``."""
    worst, before = 0.0, time.perf_counter()
    while not over.is_set():
        await asyncio.sleep(BEAT)
        now = time.perf_counter()
        worst, before = max(worst, now - before - BEAT), now
    return worst * 1000.0


async def measured(meter: Meter, rounds: int, calls: int, profile: bool) -> dict[str, dict[str, float]]:
    """Median CPU and wall milliseconds of a call both ways, and of a round's longest gap."""
    env = environment()
    judge = judge_for(options_of(env, {}))
    compute_score = make_verl_compute_score(env)

    async def batch(codes: list[str]) -> list[float]:
        found = await asyncio.to_thread(judge.dg.run_batch, env, codes)
        return [result.score for result in found.results]

    async def function(codes: list[str]) -> list[float]:
        texts = [f"Like this:\n```python\n{code}```\n" for code in codes]
        rows = (compute_score("deepgym/bench", text, env.name, {"env": env.name}) for text in texts)
        return [row["score"] for row in await asyncio.gather(*rows)]

    ways: dict[str, Callable[[list[str]], Awaitable[list[float]]]] = {
        "run_batch": batch,
        "compute_score": function,
    }
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            codes, over = answers(env, calls, turn), asyncio.Event()
            beating = asyncio.create_task(longest_gap(over))
            before, began = meter.read(), time.perf_counter()
            found = await way(codes)
            spent, took = meter.read() - before, (time.perf_counter() - began) * 1000.0
            over.set()
            assert found == [1.0] * calls
            gap = await beating
            if turn:  # the first round warms up
                taken[name].append((spent / calls, took / calls, gap))
    if profile:
        await profiled(function, answers(env, calls, rounds + 1))
    judge.close()
    return {name: medians(rows) for name, rows in taken.items()}


def medians(rows: list[tuple[float, float, float]]) -> dict[str, float]:
    """The middle of each column."""
    names = ("cpu_ms", "wall_ms", "gap_ms")
    return {name: statistics.median(row[place] for row in rows) for place, name in enumerate(names)}


async def profiled(way: Callable[[list[str]], Awaitable[list[float]]], codes: list[str]) -> None:
    """Print where the worker's event loop spends its time."""
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.enable()
    await way(codes)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def imports(rounds: int) -> dict[str, float] | None:
    """Median CPU milliseconds of ``import verl`` with our plugin and without any; ``None`` without verl."""
    if versions.installed() is None or rounds < 1:
        return None
    found: dict[str, list[float]] = {"none": [], "deepgym": []}
    for turn in range(rounds + 1):
        for policy, times in found.items():
            before = _children()
            command = [sys.executable, "-c", "import verl"]
            environ = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": policy}
            subprocess.run(command, env=environ, cwd="/", check=True, capture_output=True)
            if turn:
                times.append(_children() - before)
    return {name: statistics.median(times) for name, times in found.items()}


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--imports", type=int, default=5, help="rounds of importing verl; 0: none")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--guard", action="store_true", help="fail if a target is missed")
    options = parser.parse_args()
    meter = Meter()
    try:
        found = asyncio.run(measured(meter, options.rounds, options.calls, options.profile))
    finally:
        meter.close()
    loaded = imports(options.imports)
    ratio = found["compute_score"]["cpu_ms"] / found["run_batch"]["cpu_ms"]
    slower = None if loaded is None else loaded["deepgym"] / loaded["none"]
    if options.json:
        exact = {"ratio": ratio, "import_ms": loaded, "import_ratio": slower, "exact": meter.exact}
        print(json.dumps({**found, **exact}))
    else:
        for name, numbers in found.items():
            cpu, wall, gap = numbers["cpu_ms"], numbers["wall_ms"], numbers["gap_ms"]
            print(f"{name:14} {cpu:6.2f} ms CPU  {wall:6.2f} ms wall, each of {options.calls}", end="")
            print(f"; longest gap of the event loop {gap:.0f} ms")
        roughly = "" if meter.exact else ", roughly"
        print(f"compute_score costs {ratio:.2f} x the batch's CPU time (target {TARGET}){roughly}")
        if loaded is None or slower is None:
            print("importing verl wasn't measured: it isn't installed, or --imports 0")
        else:
            print(
                f"import verl: {loaded['deepgym']:.0f} ms CPU with the plugin, {loaded['none']:.0f} without: "
                f"{slower:.3f} x (target {IMPORT_TARGET})"
            )
    if options.guard and (ratio > TARGET or (slower or 0.0) > IMPORT_TARGET):
        raise SystemExit("a target is missed")


if __name__ == "__main__":
    main()
