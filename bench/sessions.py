"""What sessions cost: opening one, a step in it, a whole episode, and many of them open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import anyio
from meter import Meter
from steps import Floor

from deepgym import AsyncDeepGym
from deepgym.environments import MultiTurnEnvironment, Program
from deepgym.providers.base import Act, Limits, Place
from deepgym.providers.local import LocalProvider

__all__ = ["sessions_report"]

PLACE = Place(Limits(memory=1 << 30, processes=64, disk=64 << 20, files=8192))
EPISODE = MultiTurnEnvironment(
    name="bench/episode",
    task="Write 42 into answer.txt.",
    verify=Program(source="def verify(work):\n    return work.text('answer.txt').strip() == '42'\n"),
)
OPEN = 64
Timed = tuple[Callable[[], None], Callable[[], None]]


class _Sessions:
    """Steps as the benchmark wants them: what is timed, and what is done after it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.provider = LocalProvider()
        self.client = AsyncDeepGym()
        self.open: Any = None
        self.standing = self.wait(self.provider.host(PLACE))
        self.wait(self.standing.act(Act("bash", b"true")))

    def wait(self, making: Any) -> Any:
        return self.loop.run_until_complete(making)

    def host(self) -> None:
        self.open = self.wait(self.provider.host(PLACE))

    def close(self) -> None:
        self.wait(self.open.close())

    def act(self, kind: Any, data: bytes) -> Callable[[], None]:
        def step() -> None:
            ran = self.wait(self.standing.act(Act(kind, data)))
            assert ran.code == 0, ran

        return step

    def episode(self) -> None:
        async def play() -> None:
            async with self.client.session(EPISODE) as session:
                await session.reset()
                for command in ("ls", "echo 42 > answer.txt", "cat answer.txt"):
                    await session.step(command)
                assert (await session.score()).passed

        self.wait(play())

    def end(self) -> None:
        self.wait(self.standing.close())
        self.wait(self.provider.close())
        self.wait(self.client.close())


def sessions_report(
    meter: Meter, rounds: int, pss: Callable[[int], float], tree: Callable[[int], list[int]]
) -> Any:
    """CPU and wall milliseconds of each step, medians over interleaved rounds; memory of open sessions."""
    loop = asyncio.new_event_loop()
    sessions = _Sessions(loop)
    floor_provider = LocalProvider(slots=2)

    def nothing() -> None: ...

    steps: dict[str, Timed] = {
        "floor": (Floor(floor_provider), nothing),
        "open a session": (sessions.host, sessions.close),
        "bash -c /bin/true, bare": (
            lambda: subprocess.run(["bash", "-c", "/bin/true"], check=True) and None,
            nothing,
        ),
        "/bin/true, bare": (lambda: subprocess.run(["/bin/true"], check=True) and None, nothing),
        "a step, /bin/true": (sessions.act("bash", b"/bin/true"), nothing),
        "a step, a shell's builtin": (sessions.act("bash", b"true"), nothing),
        "an episode of three steps": (sessions.episode, nothing),
        "nothing": (nothing, nothing),
    }
    found = _interleaved(meter, steps, rounds)
    idle = found.pop("nothing")[0]
    floor = found["floor"][0] - idle
    rows = {
        name: {"cpu_ms": cpu - idle, "wall_ms": wall, "floors": (cpu - idle) / floor}
        for name, (cpu, wall) in found.items()
    }
    before = sum(map(pss, tree(os.getpid())[1:]))
    memory = loop.run_until_complete(_memory(sessions.provider, before, pss, tree))
    sessions.end()
    anyio.run(floor_provider.close)
    loop.close()
    return rows, memory


def _interleaved(meter: Meter, steps: dict[str, Timed], rounds: int) -> dict[str, tuple[float, float]]:
    cpu: dict[str, list[float]] = {name: [] for name in steps}
    wall: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 3):
        for name, (step, after) in steps.items():
            before, began = meter.read(), time.perf_counter()
            step()
            took, used = time.perf_counter() - began, meter.read() - before
            after()
            if turn >= 3:
                wall[name].append(took * 1000.0)
                cpu[name].append(used)
    return {name: (statistics.median(cpu[name]), statistics.median(wall[name])) for name in steps}


async def _memory(
    provider: LocalProvider, before: float, pss: Callable[[int], float], tree: Callable[[int], list[int]]
) -> dict[str, float]:
    """Megabytes that each of many open sessions takes, without a shell and with one."""
    async with contextlib.AsyncExitStack() as stack:
        spaces = []
        began = time.perf_counter()
        for _ in range(OPEN - 1):  # one is open already
            spaces.append(await provider.host(PLACE))
            stack.push_async_callback(spaces[-1].close)
        opened = time.perf_counter() - began
        without = sum(map(pss, tree(os.getpid())[1:])) - before
        for space in spaces:
            await space.act(Act("bash", b"true"))
        with_shell = sum(map(pss, tree(os.getpid())[1:])) - before
    return {
        f"{OPEN} sessions opened in turn, s": opened,
        "memory of an open session, MB": without / len(spaces),
        "the same with a shell, MB": with_shell / len(spaces),
    }
