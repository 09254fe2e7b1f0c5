"""What the laws of sessions stand on: a provider, sandboxes that are closed again, and an episode."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import anyio

from deepgym.client import AsyncDeepGym
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, ToolCall
from deepgym.models import RunResult
from deepgym.providers.base import Act, Hosting, Limits, Place, Provider, Ran, Workspace
from deepgym.session.agents import ScriptedAgent
from deepgym.testing import session_script as script
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.sessions import FakeWorkspace

__all__ = ["BRIEF", "EPISODE", "PLACE", "Open", "SessionBench", "answers", "bash", "read"]

#: Seconds after which a law counts as hanging.
_PATIENCE = 120.0

#: What the laws' sandboxes are asked for.
PLACE = Place(
    Limits(memory=256 << 20, processes=48, disk=32 << 20, files=4000, file_size=16 << 20), ("bash",)
)
#: An episode whose agent has to leave a file.
EPISODE = MultiTurnEnvironment(
    name="laws/session",
    task="Write 'yes' into the file done.",
    verify=Program(source=script.VERIFIER),
    files={"notes.txt": "read me\n"},
    setup=script.SETUP,
    limits=EpisodeLimits(processes=48, memory=256 << 20, disk=32 << 20, files=4000),
    reference=(
        ToolCall(name="bash", arguments={"command": script.DONE}),
        ToolCall(name="submit"),
    ),
)
#: The same with little time for a step.
BRIEF = EPISODE.model_copy(update={"limits": EPISODE.limits.model_copy(update={"step": 2.0})})

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Workspace]]
"""Opens a sandbox, for a ``Place`` if one is given."""


async def bash(workspace: Workspace, command: str, **others: Any) -> Ran:
    """Run ``command`` in the shell."""
    return await workspace.act(Act("bash", command.encode(), **{"seconds": 30.0, **others}))


async def read(workspace: Workspace, path: str, **others: Any) -> Ran:
    """Read a file."""
    return await workspace.act(Act("read", path=path, **others))


async def answers(workspace: Workspace) -> None:
    """The sandbox still does what it is asked."""
    ran = await bash(workspace, script.ECHO)
    assert (ran.code, ran.output) == (0, b"hello\n"), f"after it, a plain echo came to {ran}"


class SessionBench:
    """What a provider's tests say of it; the laws are in ``session_laws``."""

    def provider(self) -> Provider:
        """A provider with ``host``; each law takes a new one and closes it. A fake by default."""
        return FakeProvider(sessions=script.sessions())

    async def end_sandbox(self, workspace: Workspace) -> None:
        """End the sandbox from outside, as an outage would, so that nothing of it is left."""
        if not isinstance(workspace, FakeWorkspace):
            raise NotImplementedError("say how a sandbox is ended from outside: define end_sandbox")
        workspace.end()

    def leftovers(self) -> set[str]:
        """What must be as before once a provider is closed: this process's descriptors and children."""
        if not sys.platform.startswith("linux"):
            return set()
        found = {f"descriptor {name}" for name in os.listdir("/proc/self/fd")}
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/children") as children:
                    found.update(f"child {pid}" for pid in children.read().split())
            except OSError:
                continue
        return found

    def _with(self, law: Callable[[Open], Awaitable[None]]) -> None:
        """Hold ``law`` to a function that opens sandboxes, all of which are closed."""

        async def main() -> None:
            provider = self.provider()
            assert isinstance(provider, Hosting), "the provider has no host(place)"

            @asynccontextmanager
            async def opened(place: Place = PLACE) -> Any:
                workspace = await provider.host(place)
                try:
                    yield workspace
                finally:
                    await workspace.close()

            try:
                with anyio.fail_after(_PATIENCE):
                    await law(opened)
            finally:
                await provider.close()

        anyio.run(main)

    def _in_one(self, law: Callable[[Workspace], Awaitable[None]]) -> None:
        async def one(opened: Open) -> None:
            async with opened() as workspace:
                await law(workspace)

        self._with(one)

    def _play(self, *commands: str, env: MultiTurnEnvironment = EPISODE) -> RunResult:
        """The result of an episode in which the agent runs ``commands``; of the reference, if none."""

        async def main() -> RunResult | None:
            calls = tuple(ToolCall(name="bash", arguments={"command": command}) for command in commands)
            agent = ScriptedAgent(calls) if calls else ScriptedAgent.reference(env)
            with anyio.fail_after(_PATIENCE):
                async with AsyncDeepGym(provider=self.provider()) as dg:
                    return (await dg.run_episode(env, agent)).result

        result = anyio.run(main)
        assert result is not None, "an episode without a result"
        return result
