"""The steps that the benchmark compares, each a function of no arguments that does one of them."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import socket
import subprocess
from collections.abc import Callable

from deepgym import AsyncDeepGym, Case, Cases, DeepGym, Environment, Program
from deepgym.providers.base import Spec
from deepgym.providers.local import LocalProvider
from deepgym.providers.local.sandbox import LocalSandbox
from deepgym.providers.local.zygotes import interpreter
from deepgym.sandboxed.wire import encode, frame

Step = Callable[[], None]

ANSWER = """
def coin_change(coins, amount):
    best = [0] + [amount + 1] * amount
    for total in range(1, amount + 1):
        for coin in coins:
            if coin <= total and best[total - coin] + 1 < best[total]:
                best[total] = best[total - coin] + 1
    return best[amount] if best[amount] <= amount else -1
"""
_CALLS = [([1, 2, 5], 11, 3), ([2], 3, -1), ([1], 0, 0), ([5, 7], 17, 3), ([3, 7], 1, -1)] * 5
DECLARED = Environment(
    name="bench/declared",
    task="coin_change",
    verify=Cases(
        function="coin_change",
        cases=tuple(Case(args=(coins, amount), expected=fewest) for coins, amount, fewest in _CALLS),
    ),
)
VERIFIED = Environment(
    name="bench/verified",
    task="coin_change",
    verify=Program(
        source="def verify(solution):\n    f = solution.function('coin_change')\n"
        + "".join(f"    assert f({coins}, {amount}) == {fewest}\n" for coins, amount, fewest in _CALLS)
    ),
)
TRIVIAL = Environment(
    name="bench/trivial",
    task="one",
    verify=Cases(function="one", cases=(Case(expected=1),)),
)


def python_start() -> None:
    """Bare interpreter: what every ratio is to."""
    path = interpreter()
    pid = os.posix_spawn(path, [path, "-I", "-S", "-c", "pass"], {})
    os.waitpid(pid, 0)


def bwrap_start() -> Step | None:
    """The same in bubblewrap, if it is installed."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return None
    path = interpreter()
    command = [
        bwrap,
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
    ]
    command += [
        "--dev",
        "/dev",
        "--size",
        "67108864",
        "--tmpfs",
        "/tmp",
        "--clearenv",
        path,
        "-I",
        "-S",
        "-c",
        "pass",
    ]
    return lambda: subprocess.run(command, check=True) and None


class Floor:
    """A forked child of a warm zygote that isolates itself, runs ``exec("pass")`` and is waited for."""

    def __init__(self, provider: LocalProvider) -> None:
        import anyio

        async def opened() -> LocalSandbox:
            sandbox = await provider.open(Spec())
            await sandbox.close()  # its zygotes stay; the host's slot is free for the client's own runs
            return sandbox

        sandbox = anyio.run(opened)
        assert sandbox.slot is not None
        self._slot = sandbox.slot
        limits = sandbox.spec.limits
        names = ("memory", "cpu", "processes", "open_files", "file_size", "disk", "files")
        self._plan = bytes(8) + encode({**{name: getattr(limits, name) for name in names}, "head": {}})
        self._null = os.open(os.devnull, os.O_WRONLY)
        self._head = frame(b"pass")
        self._poll = select.poll()
        self._poll.register(self._slot.solution.fd, select.POLLIN)

    def __call__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.send(self._head)
        ours.shutdown(socket.SHUT_WR)
        self._slot.solution.start(self._plan, [theirs.fileno(), self._null, self._null])
        theirs.close()
        self._poll.poll()
        status = self._slot.solution.control.recv(64)
        assert status[:4] == b"\0\0\0\0", status
        ours.close()


def judged(client: DeepGym, env: Environment, answer: str) -> Step:
    """One run through the sync client, which must pass."""

    def step() -> None:
        result = client.run(env, answer)
        assert result.passed, result

    return step


def awaited(loop: asyncio.AbstractEventLoop, client: AsyncDeepGym, env: Environment, answer: str) -> Step:
    """One run through the async client in a loop of the caller's own, which must pass."""

    def step() -> None:
        result = loop.run_until_complete(client.run(env, answer))
        assert result.passed, result

    return step
