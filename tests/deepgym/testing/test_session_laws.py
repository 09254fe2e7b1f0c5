"""The laws of sessions hold for the fake and for the local provider, and each is broken by some provider."""

from __future__ import annotations

import inspect
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from deepgym.exceptions import NetworkError, SandboxDiedError
from deepgym.providers.base import Act, Place, Provider, Ran, Workspace
from deepgym.testing import FakeProvider, FakeWorkspace, session_script
from deepgym.testing.session_laws import SessionLaws
from deepgym.testing.sessions import FakeSessions
from deepgym.testing.trees import Entry, pack_tree


class TestTheFake(SessionLaws):
    """Plays the laws' commands from a script."""


@pytest.mark.local_sandbox
class TestTheLocalProvider(SessionLaws):
    def provider(self) -> Provider:
        from deepgym.providers.local.provider import LocalProvider

        return LocalProvider()

    async def end_sandbox(self, workspace: Any) -> None:
        pidfd = workspace._standing._zygote.pidfd
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        assert ended.poll(10_000)


# Providers that break a law each.


class Lying(FakeWorkspace):
    """Every command succeeds."""

    async def act(self, act: Act) -> Ran:
        return replace(await super().act(act), code=0)


class Bare(FakeWorkspace):
    """Drops a script's variables."""

    async def act(self, act: Act) -> Ran:
        return await super().act(replace(act, env={"GREETING": ""}))


class Short(FakeWorkspace):
    """Writes the first 64 KiB of a file."""

    async def act(self, act: Act) -> Ran:
        return await super().act(replace(act, data=act.data[: 64 << 10]))


class Raising(FakeWorkspace):
    """Raises where a file is missing."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        if act.do == "read" and ran.code:
            raise FileNotFoundError(act.path)
        return ran


class Forgetful(FakeWorkspace):
    """Has a new shell for each command."""

    async def act(self, act: Act) -> Ran:
        self.notes.clear()
        return await super().act(act)


class Fragile(FakeWorkspace):
    """Ends with its shell."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        if ran.note:
            self.end()
        return ran


class Mute(FakeWorkspace):
    """Says nothing of a shell that ended."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        return Ran(code=0) if ran.note else ran


class Boundless(FakeWorkspace):
    """Keeps all output."""

    async def act(self, act: Act) -> Ran:
        return await super().act(replace(act, output=1 << 30))


class Decoding(FakeWorkspace):
    """Takes output for text."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        return replace(ran, output=ran.output.decode("utf-8", "replace").encode())


class Shellish(FakeWorkspace):
    """Says of a time-out what ``timeout`` says."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        return replace(ran, code=124, timed_out=False) if ran.timed_out else ran


class Greedy(FakeWorkspace):
    """Reads whatever a path gives."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        return replace(ran, output=bytes(1 << 20)) if act.path.startswith("/dev") else ran


class Blaming(FakeWorkspace):
    """Calls a dead sandbox a lost connection."""

    async def act(self, act: Act) -> Ran:
        try:
            return await super().act(act)
        except SandboxDiedError as error:
            raise NetworkError("connection reset") from error


class ClosedOnce(FakeWorkspace):
    """Can't be closed twice."""

    async def close(self) -> None:
        if self.closed:
            raise SandboxDiedError("closed already")
        await super().close()


class Undead(FakeWorkspace):
    """Goes on when it is closed."""

    async def close(self) -> None:
        pass


class Careless(FakeWorkspace):
    """Leaves a descriptor behind."""

    left: ClassVar[list[int]] = []

    async def close(self) -> None:
        await super().close()
        self.left.append(os.dup(2))


class Flat(FakeWorkspace):
    """Forgets which files are programs."""

    async def copy(self, **bounds: Any) -> bytes:
        self.entries = {path: replace(entry, executable=False) for path, entry in self.entries.items()}
        return await super().copy(**bounds)


class Brutal(FakeWorkspace):
    """Ends the agent's jobs at every copy."""

    async def copy(self, **bounds: Any) -> bytes:
        return await super().copy(**{**bounds, "last": True})


class Lenient(FakeWorkspace):
    """Lets the agent's jobs live on."""

    async def copy(self, **bounds: Any) -> bytes:
        return await super().copy(**{**bounds, "last": False})


class Following(FakeWorkspace):
    """Follows links."""

    async def copy(self, **bounds: Any) -> bytes:
        for path, entry in self.entries.items():
            if entry.kind == "l":
                self.entries[path] = Entry("f", b"root:x:0:0")
        return await super().copy(**bounds)


class Unbounded(FakeWorkspace):
    """Copies all that there is."""

    async def copy(self, **bounds: Any) -> bytes:
        return await super().copy(**{**bounds, "room": 1 << 40, "files": 1 << 40})


class Stumbling(FakeWorkspace):
    """Dies of what it doesn't know in a work directory."""

    async def copy(self, **bounds: Any) -> bytes:
        if any(entry.target.startswith("/") for entry in self.entries.values()):
            raise SandboxDiedError("tar: exit status 2")
        return await super().copy(**bounds)


class Empty(FakeWorkspace):
    """Copies nothing."""

    async def copy(self, **bounds: Any) -> bytes:
        return pack_tree({})


class Masking(FakeWorkspace):
    """Calls what the agent did to it an outage."""

    async def act(self, act: Act) -> Ran:
        ran = await super().act(act)
        if ran.note:
            raise NetworkError("no answer")
        return ran


SHARED_NOTES: dict[str, Any] = {}
SHARED_FILES: dict[str, bytes] = {}


class Common(FakeWorkspace):
    """One /tmp for all."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.notes = SHARED_NOTES


class Crowded(FakeWorkspace):
    """One work directory for all."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.files = SHARED_FILES


class Named(FakeWorkspace):
    """All have the same name."""

    def __init__(self, script: FakeSessions, place: Place, id: str) -> None:
        super().__init__(script, place, "session")


class Unchecked(FakeWorkspace):
    """Hosted whatever program it is to have."""


class Altered(FakeProvider):
    """A fake whose sandboxes are of another class."""

    def __init__(self, made: type[FakeWorkspace]) -> None:
        script = session_script.sessions()
        super().__init__(sessions=replace(script, missing=frozenset()) if made is Unchecked else script)
        self.made = made

    async def host(self, place: Place) -> FakeWorkspace:
        workspace = await super().host(place)
        return self.made(self.sessions, place, workspace.id)


class Broken(SessionLaws):
    __test__ = False

    def __init__(self, made: type[FakeWorkspace]) -> None:
        self.made = made

    def provider(self) -> Provider:
        return Altered(self.made)


_ENDLESS = ("bash", "sleep 1000")
#: Who breaks which law, and with what a law with parameters is asked.
BREAKERS: list[tuple[type[FakeWorkspace], str, tuple[Any, ...]]] = [
    (Lying, "test_commands_are_run_and_their_status_is_told", ()),
    (Bare, "test_a_script_gets_its_variables_and_says_if_it_fails", ()),
    (Lying, "test_a_script_gets_its_variables_and_says_if_it_fails", ()),
    (Short, "test_files_are_written_and_read_whole", ()),
    (Raising, "test_files_are_written_and_read_whole", ()),
    (Forgetful, "test_the_shell_lives_on_from_act_to_act", ()),
    (Fragile, "test_a_shell_that_ends_is_told_and_replaced", ("exit 7",)),
    (Mute, "test_a_shell_that_ends_is_told_and_replaced", ("exit 7",)),
    (Boundless, "test_output_is_bounded_and_says_so", ()),
    (Decoding, "test_output_that_is_no_text_comes_back_as_it_is", ()),
    (Shellish, "test_an_act_ends_at_its_limit", _ENDLESS),
    (Greedy, "test_files_that_never_end_or_never_begin_hold_nothing_up", ()),
    (Blaming, "test_a_dead_sandbox_is_never_called_infrastructure", ()),
    (ClosedOnce, "test_a_sandbox_is_closed_twice_and_then_does_nothing", ()),
    (Undead, "test_a_sandbox_is_closed_twice_and_then_does_nothing", ()),
    (Unchecked, "test_a_missing_program_is_named_at_once", ()),
    (Careless, "test_nothing_is_left_behind", ()),
    (Flat, "test_a_copy_holds_what_the_agent_wrote", ()),
    (Brutal, "test_a_copy_on_the_way_ends_nothing", ()),
    (Lenient, "test_a_last_copy_ends_all_that_the_agent_has_running", ()),
    (Following, "test_a_copy_takes_no_harm_from_what_stands_there", ()),
    (Unbounded, "test_a_copy_keeps_its_bounds", ()),
    (Common, "test_sessions_do_not_see_each_other", ()),
    (Named, "test_sessions_do_not_see_each_other", ()),
    (Crowded, "test_many_sessions_go_on_at_once", ()),
    (Empty, "test_an_episode_is_judged_by_what_it_left", ()),
    (Stumbling, "test_a_hostile_tree_can_be_judged", ()),
    (Masking, "test_whatever_the_agent_does_to_its_sandbox_there_is_a_verdict", ("kill -9 -1",)),
    (Blaming, "test_a_sandbox_that_dies_on_an_agent_is_its_zero", ()),
]


@pytest.fixture(autouse=True)
def nothing_shared() -> Iterator[None]:
    yield
    SHARED_NOTES.clear()
    SHARED_FILES.clear()
    while Careless.left:
        os.close(Careless.left.pop())


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(seconds: float) -> None:
        pass

    monkeypatch.setattr("deepgym.testing.session_laws.anyio.sleep", at_once)


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize(
    ("made", "law", "arguments"), BREAKERS, ids=[f"{made.__name__}-{law}" for made, law, _ in BREAKERS]
)
def test_a_provider_that_breaks_a_law_fails_it(
    made: type[FakeWorkspace], law: str, arguments: tuple[Any, ...]
) -> None:
    getattr(TestTheFake(), law)(*arguments)
    try:
        getattr(Broken(made), law)(*arguments)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however it shows
        return
    pytest.fail(f"{made.__name__} ({made.__doc__}) passes the law")


def test_every_law_can_be_broken() -> None:
    laws = {name for name, _ in inspect.getmembers(SessionLaws) if name.startswith("test_")}
    assert laws == {law for _, law, _ in BREAKERS}


def test_who_cannot_end_a_sandbox_from_outside_is_told() -> None:
    import anyio

    class Other:
        pass

    async def main() -> None:
        workspace: Workspace = Other()  # type: ignore[assignment]
        with pytest.raises(NotImplementedError, match="end_sandbox"):
            await SessionLaws().end_sandbox(workspace)

    anyio.run(main)


def test_a_provider_without_sessions_fails_at_once() -> None:
    class Runs(SessionLaws):
        __test__ = False

        def provider(self) -> Provider:
            provider: Any = FakeProvider()
            provider.host = None
            return type("Runs", (), {"close": provider.close})()  # type: ignore[no-any-return]

    with pytest.raises(AssertionError, match="no host"):
        Runs().test_the_shell_lives_on_from_act_to_act()
