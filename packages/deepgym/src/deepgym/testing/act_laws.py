"""The laws of a session's acts: what each kind does, what is kept of its output, and that it ends."""

from __future__ import annotations

from typing import Any

import pytest

from deepgym.providers.base import Act, Workspace
from deepgym.testing import session_script as script
from deepgym.testing.session_bench import SessionBench, answers, bash, read

__all__ = ["ActLaws"]

#: Bytes beyond an act's own limit that may say what is missing.
_REMARK = 200


class ActLaws(SessionBench):
    """A part of ``SessionLaws``."""

    def test_commands_are_run_and_their_status_is_told(self) -> None:
        async def law(workspace: Workspace) -> None:
            ran = await bash(workspace, script.BOTH)
            assert (ran.code, sorted(ran.output.split())) == (0, [b"err", b"out"])
            assert (await bash(workspace, script.STATUS)).code == 3
            ran = await bash(workspace, script.UNKNOWN)
            assert ran.code == 127, "an unknown command is the agent's to see"
            ran = await workspace.act(Act("python", script.PYTHON.encode()))
            assert (ran.code, ran.output) == (0, b"42\n")
            assert (await workspace.act(Act("python", script.PYTHON_STATUS.encode()))).code == 5

        self._in_one(law)

    def test_a_script_gets_its_variables_and_says_if_it_fails(self) -> None:
        async def law(workspace: Workspace) -> None:
            env = {"GREETING": "good day"}
            ran = await workspace.act(Act("script", script.GREETING.encode(), env=env))
            assert ran.code == 0
            assert (await read(workspace, "greeting.txt")).output == b"good day\n"
            assert (await workspace.act(Act("script", script.FAILING.encode()))).code == 4

        self._in_one(law)

    def test_files_are_written_and_read_whole(self) -> None:
        async def law(workspace: Workspace) -> None:
            for content in (bytes(range(256)) * 400, b"short", b""):
                ran = await workspace.act(Act("write", content, path="a/deep/file.bin"))
                assert ran.code == 0, ran
                ran = await read(workspace, "a/deep/file.bin", output=1 << 20)
                assert (ran.code, ran.output == content) == (0, True)
            for act in (
                Act("read", path="missing.txt"),
                Act("read", path="a"),
                Act("write", b"x", path="a"),
            ):
                ran = await workspace.act(act)
                assert ran.code not in (0, None), f"{act.do} {act.path}: {ran}"
                assert ran.output or ran.error, "it says nothing of why"

        self._in_one(law)

    def test_the_shell_lives_on_from_act_to_act(self) -> None:
        async def law(workspace: Workspace) -> None:
            assert (await bash(workspace, script.REMEMBER)).code == 0
            assert (await bash(workspace, script.RECALL)).output == b"kept here\n"
            ran = await bash(workspace, script.READS_INPUT)
            assert ran.output == b"after\n", "a command must not eat what comes after it"

        self._in_one(law)

    @pytest.mark.parametrize("command", script.SHELL_ENDERS)
    def test_a_shell_that_ends_is_told_and_replaced(self, command: str) -> None:
        async def law(workspace: Workspace) -> None:
            ran = await bash(workspace, command, seconds=5.0)
            assert ran.note or ran.code not in (0, None) or ran.timed_out, f"nothing was said: {ran}"
            await answers(workspace)

        self._in_one(law)

    def test_output_is_bounded_and_says_so(self) -> None:
        async def law(workspace: Workspace) -> None:
            ran = await bash(workspace, script.LONG, output=1000)
            assert (ran.cut, ran.code) == (True, 0)
            assert len(ran.output) <= 1000 + _REMARK
            ran = await workspace.act(Act("python", script.LONG_PYTHON.encode(), output=1000))
            assert (ran.cut, len(ran.output) <= 1000 + _REMARK) == (True, True)
            await workspace.act(Act("write", b"y" * 100_000, path="long.txt"))
            ran = await read(workspace, "long.txt", output=1000)
            assert (ran.cut, len(ran.output) <= 1000 + _REMARK) == (True, True)
            assert not (await bash(workspace, script.ECHO)).cut

        self._in_one(law)

    def test_output_that_is_no_text_comes_back_as_it_is(self) -> None:
        async def law(workspace: Workspace) -> None:
            assert (await bash(workspace, script.NO_TEXT)).output == b"\xff\xfe\x00\n"

        self._in_one(law)

    @pytest.mark.parametrize(("do", "source"), script.ENDLESS)
    def test_an_act_ends_at_its_limit(self, do: Any, source: str) -> None:
        async def law(workspace: Workspace) -> None:
            ran = await workspace.act(Act(do, source.encode(), seconds=0.5))
            assert (ran.timed_out, ran.code) == (True, None)
            assert ran.seconds >= 0.5
            await answers(workspace)

        self._in_one(law)

    def test_files_that_never_end_or_never_begin_hold_nothing_up(self) -> None:
        async def law(workspace: Workspace) -> None:
            await bash(workspace, script.PIPES)
            for path in ("pipe", "/dev/zero"):
                ran = await read(workspace, path, seconds=1.0)
                assert len(ran.output) <= (16 << 10) + _REMARK
                await workspace.act(Act("write", b"x", path=path, seconds=1.0))
            await answers(workspace)

        self._in_one(law)
