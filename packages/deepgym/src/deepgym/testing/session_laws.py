"""The laws of sessions, as one suite that every provider with ``host`` passes.

    class TestMySessions(SessionLaws):
        def provider(self):
            return MyProvider()

        async def end_sandbox(self, workspace):
            await my_control_plane.kill(workspace.id)

The commands below are run for real; the fake provider plays them from ``session_script``. ``python`` and
bash with the usual tools are all that a sandbox has to have.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from deepgym.client import AsyncDeepGym
from deepgym.exceptions import SandboxDiedError, SandboxError, is_infrastructure_failure
from deepgym.providers.base import Act, Hosting, Place, Ran, Workspace
from deepgym.testing import session_script as script
from deepgym.testing.act_laws import ActLaws
from deepgym.testing.session_bench import BRIEF, EPISODE, PLACE, Open, answers, bash, read
from deepgym.testing.trees import Entry, read_tree

__all__ = ["SessionLaws"]

_ROOM, _FILES = 4 << 20, 2000


async def _log(workspace: Workspace) -> Ran:
    return await read(workspace, script.LOG, output=1 << 20)


async def _copied(workspace: Workspace, last: bool = True) -> dict[str, Entry]:
    return read_tree(await workspace.copy(last=last, room=_ROOM, files=_FILES))[0]


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(500):
        if await holds():
            return
        await anyio.sleep(0.02)
    raise AssertionError(f"waited in vain: {what}")


class SessionLaws(ActLaws):
    """Subclass it in a test module, with a name that pytest collects."""

    # Ends.

    def test_a_dead_sandbox_is_never_called_infrastructure(self) -> None:
        async def law(workspace: Workspace) -> None:
            await answers(workspace)
            await self.end_sandbox(workspace)
            for _ in range(2):
                with pytest.raises(SandboxDiedError) as caught:
                    await bash(workspace, script.ECHO)
                assert not is_infrastructure_failure(caught.value)
            with pytest.raises(SandboxDiedError) as caught:
                await _copied(workspace)
            assert not is_infrastructure_failure(caught.value)

        self._in_one(law)

    def test_a_sandbox_is_closed_twice_and_then_does_nothing(self) -> None:
        async def law(opened: Open) -> None:
            async with opened() as workspace:
                await workspace.close()
                await workspace.close()
                with pytest.raises(SandboxError):
                    await bash(workspace, script.ECHO)

        self._with(law)

    def test_a_missing_program_is_named_at_once(self) -> None:
        async def law(opened: Open) -> None:
            with pytest.raises(SandboxError, match=script.MISSING):
                async with opened(Place(PLACE.limits, ("bash", script.MISSING))):
                    pass

        self._with(law)

    def test_nothing_is_left_behind(self) -> None:
        async def law(opened: Open) -> None:
            async with opened() as first, opened() as second, opened() as third:
                await bash(first, script.LINGER)
                with anyio.move_on_after(0.2):
                    await bash(first, script.SLEEP)
                await bash(second, script.LINGER)
                await self.end_sandbox(second)
                with pytest.raises(SandboxDiedError):
                    await bash(second, script.ECHO)
                await self.end_sandbox(third)

        self._in_one(answers)  # what is loaded or made once isn't left behind
        gc.collect()
        before = self.leftovers()
        self._with(law)
        assert self.leftovers() <= before, f"left behind: {self.leftovers() - before}"

    # Copies.

    def test_a_copy_holds_what_the_agent_wrote(self) -> None:
        async def law(workspace: Workspace) -> None:
            assert (await bash(workspace, script.WORK)).code == 0
            for last in (False, True):
                found = await _copied(workspace, last)
                wrong = {
                    path: found.get(path) for path, entry in script.LEFT.items() if found.get(path) != entry
                }
                assert not wrong, f"a copy differs: {wrong}"
                assert set(found) == set(script.LEFT)

        self._in_one(law)

    def test_a_copy_on_the_way_ends_nothing(self) -> None:
        async def law(workspace: Workspace) -> None:
            await bash(workspace, script.REMEMBER)
            await bash(workspace, script.WRITER)
            await _copied(workspace, last=False)
            size = len((await _log(workspace)).output)

            async def grew() -> bool:
                return len((await _log(workspace)).output) > size

            await _until(grew, "the agent's job to go on after a copy")
            assert (await bash(workspace, script.RECALL)).output == b"kept here\n"

        self._in_one(law)

    def test_a_last_copy_ends_all_that_the_agent_has_running(self) -> None:
        async def law(workspace: Workspace) -> None:
            await bash(workspace, script.WRITER)

            async def writes() -> bool:
                return (await _log(workspace)).code == 0

            await _until(writes, "the agent's jobs to write")
            first = await _copied(workspace)
            assert first["log"].content
            await anyio.sleep(0.3)
            assert await _copied(workspace) == first, "something of the agent's lives on"

        self._in_one(law)

    def test_a_copy_takes_no_harm_from_what_stands_there(self) -> None:
        async def law(workspace: Workspace) -> None:
            assert (await bash(workspace, script.HOSTILE)).code == 0
            data = await workspace.copy(last=True, room=_ROOM, files=_FILES)
            found, _ = read_tree(data)
            assert len(found) <= _FILES
            assert sum(len(entry.content) for entry in found.values()) <= _ROOM
            for path in ("passwd", "outside"):
                assert found.get(path, Entry("l")).kind == "l", f"the link {path!r} was followed"
            assert not any(path.startswith("outside/") for path in found), "a link was followed"
            assert found["plain.txt"] == Entry("f", b"plain\n")

        self._in_one(law)

    def test_a_copy_keeps_its_bounds(self) -> None:
        async def law(workspace: Workspace) -> None:
            assert (await bash(workspace, script.WORK)).code == 0
            for room, files in ((10, 100), (1 << 20, 2), (0, 0)):
                found, left_out = read_tree(await workspace.copy(last=True, room=room, files=files))
                assert left_out > 0
                assert len(found) <= files
                assert sum(len(entry.content) for entry in found.values()) <= room

        self._in_one(law)

    # Sessions beside each other.

    def test_sessions_do_not_see_each_other(self) -> None:
        async def law(opened: Open) -> None:
            async with opened() as mine, opened() as other:
                assert mine.id != other.id
                await bash(mine, script.LINGER)
                await bash(mine, script.MARK)
                ran = await bash(other, script.LOOK)
                assert ran.output.split() == [b"alone"], f"another session's: {ran.output!r}"
                await bash(other, script.KILL_ALL, seconds=5.0)
                assert (await bash(mine, script.LOOK)).output.split() == [b"files", b"processes", b"alone"]

        self._with(law)

    def test_many_sessions_go_on_at_once(self) -> None:
        async def law(opened: Open) -> None:
            async def one(name: str) -> None:
                async with opened() as workspace:
                    for turn in range(3):
                        await workspace.act(Act("write", f"{name} {turn}".encode(), path="mine.txt"))
                        await answers(workspace)
                        assert (await read(workspace, "mine.txt")).output == f"{name} {turn}".encode()
                    assert (await _copied(workspace))["mine.txt"].content == f"{name} 2".encode()

            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(one, f"session {number}")

        self._with(law)

    # Episodes.

    def test_an_episode_is_judged_by_what_it_left(self) -> None:
        for result, reward in ((self._play(), 1.0), (self._play(script.ECHO), 0.0)):
            assert (result.reward, result.error_type) == (reward, None), result.error

    def test_a_hostile_tree_can_be_judged(self) -> None:
        result = self._play(script.HOSTILE, script.DONE)
        assert (result.reward, result.error_type) == (1.0, None), result.error

    @pytest.mark.parametrize("command", script.ATTACKS)
    def test_whatever_the_agent_does_to_its_sandbox_there_is_a_verdict(self, command: str) -> None:
        result = self._play(command, script.ECHO, env=BRIEF)
        assert (result.has_verdict, result.reward) == (True, 0.0), (result.error_type, result.error)

    def test_a_sandbox_that_dies_on_an_agent_is_its_zero(self) -> None:
        async def main() -> Any:
            provider = self.provider()
            opened: list[Workspace] = []
            assert isinstance(provider, Hosting)
            host = provider.host

            async def noted(place: Place) -> Workspace:
                opened.append(await host(place))
                return opened[-1]

            provider.host = noted  # type: ignore[method-assign]
            async with AsyncDeepGym(provider=provider) as dg, dg.session(EPISODE) as session:
                await session.reset()
                await session.step(script.DONE)
                await self.end_sandbox(opened[0])
                seen = await session.step(script.ECHO)
                assert (seen.done, seen.ended) == (True, "sandbox")
                return await session.score()

        result = anyio.run(main)
        assert (result.error_type, result.reward) == ("policy_sandbox_failure", 0.0)
