"""Sessions without processes: what each act does and what a verifier makes of the work is scripted.

    sessions = FakeSessions(
        {"make": "built", "rm -rf /": SandboxDiedError("gone"), "spin": Ran(seconds=1e9)},
        judged=lambda files: files.get("answer.txt") == b"42",
    )
    provider = FakeProvider(sessions=sessions)

Files are kept for real: what ``write`` writes, ``read`` reads and ``copy`` copies. Nothing waits for real
time: an act whose ``Ran`` took more seconds than it had is one that was stopped.
"""

from __future__ import annotations

import inspect
import posixpath
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import anyio.lowlevel

from deepgym.exceptions import SandboxDiedError, SandboxError, SandboxExpiredError
from deepgym.providers.base import Act, Capabilities, Place, Ran
from deepgym.sandboxed.wire import WORK
from deepgym.testing.behaviours import UNKNOWN, Behaviour
from deepgym.testing.trees import Entry, files_of, pack_tree

__all__ = ["VERBS", "FakeSessions", "FakeWorkspace", "Verb", "act_text"]

Verb = Literal["host", "act", "copy", "close"]
VERBS: tuple[Verb, ...] = ("host", "act", "copy", "close")

_Did: TypeAlias = "Ran | str | bytes | BaseException | None"
Reaction: TypeAlias = "_Did | Callable[[FakeWorkspace], _Did | Awaitable[_Did]]"
"""What an act comes to; its output alone stands for status 0, an exception is raised."""
Failure: TypeAlias = "BaseException | Callable[[], BaseException] | None"
Judged: TypeAlias = "Behaviour | float | Callable[[dict[str, bytes]], Behaviour | float]"
_UNSCRIPTED = Ran(output=b"an unscripted command\n", code=127)


def act_text(act: Act) -> str:
    """What an act is known by: its command or source without outer blank space, or its path."""
    return act.path if act.do in ("write", "read") else act.data.decode("utf-8", "replace").strip()


@dataclass
class FakeSessions:
    """The script of a ``FakeProvider``'s sessions.

    ``acts``: what the commands and sources of ``bash``, ``python`` and ``script`` come to, by their text; or
    a function from every ``Act``, files among them, that returns ``None`` for what it doesn't care for. A
    set-up that isn't scripted does nothing; other unscripted commands end with status 127.
    """

    acts: Mapping[str, Reaction] | Callable[[Act], _Did | Awaitable[_Did]] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """In each work directory from its beginning."""
    tree: Mapping[str, str | bytes] | bytes | None = None
    """What every copy holds, whatever was written (bytes: raw); ``None``: the files that are there."""
    judged: Judged | None = None
    """What the verifier makes of a copy: a ``Behaviour``, or a score, which ``True`` is too; or a function
    that says so of the copy's files. ``None``: it scores 0.
    """
    fails: Mapping[Verb, Failure | Sequence[Failure]] = field(default_factory=dict)
    """What each verb raises: always, or in turn for its first calls, ``None`` for one that works. Calls are
    counted over all sessions. ``close`` closes all the same.
    """
    missing: frozenset[str] = frozenset()
    """Programs that no sandbox has."""
    calls: Counter[str] = field(default_factory=Counter)
    """Of each verb so far."""

    def fail(self, verb: Verb) -> None:
        """Count a call, and raise what it is to fail with."""
        turn = self.calls[verb]
        self.calls[verb] += 1
        failure = self.fails.get(verb)
        if isinstance(failure, Sequence):
            failure = failure[turn] if turn < len(failure) else None
        if failure is not None:
            raise failure if isinstance(failure, BaseException) else failure()

    def judge(self, tree: bytes) -> Behaviour:
        """What the verifier makes of a copy."""
        made = self.judged(files_of(tree)) if callable(self.judged) else self.judged
        if made is None:
            return UNKNOWN
        return made if isinstance(made, Behaviour) else Behaviour.reports(float(made))

    def host(self, place: Place, id: str) -> FakeWorkspace:
        """A new sandbox. Raises ``SandboxError`` if it has to have a program that is missing."""
        self.fail("host")
        lacking = [name for name in place.requires if name in self.missing]
        if lacking:
            raise SandboxError(f"the sandbox has no program {lacking[0]!r}")
        return FakeWorkspace(self, place, id)


class FakeWorkspace:
    """See ``deepgym.providers.base.Workspace``.

    ``files`` is the work directory, ``entries`` what else a copy of it holds (links, empty folders), ``acts``
    what was done so far. What is appended to ``background`` is called at each act and copy, until a last copy
    or the end of the sandbox ends it. ``notes`` is a script's own.
    """

    capabilities = Capabilities(isolation="fake")

    def __init__(self, script: FakeSessions, place: Place, id: str) -> None:
        self.id = id
        self.script, self.place = script, place
        self.files: dict[str, bytes] = {
            path: content.encode() if isinstance(content, str) else content
            for path, content in script.files.items()
        }
        self.entries: dict[str, Entry] = {}
        self.acts: list[Act] = []
        self.background: list[Callable[[FakeWorkspace], object]] = []
        self.notes: dict[str, Any] = {}
        self.closed = False
        self._ended: SandboxError | None = None

    def end(self, error: SandboxError | None = None) -> None:
        """End the sandbox as from outside: whatever is asked of it raises from now on."""
        self._ended = error or SandboxDiedError(f"the sandbox {self.id} has ended")
        self.background.clear()

    async def act(self, act: Act) -> Ran:
        """See the base class."""
        await self._begin()
        self.acts.append(act)
        self._fail("act")
        did = await self._did(act)
        if isinstance(did, (SandboxDiedError, SandboxExpiredError)):
            self.end(did)
        if isinstance(did, BaseException):
            raise did
        if did is None:
            did = Ran(code=0) if act.do == "script" else _UNSCRIPTED
        elif not isinstance(did, Ran):
            did = Ran(output=did.encode() if isinstance(did, str) else did, code=0)
        return _bounded(did, act)

    async def _did(self, act: Act) -> _Did:
        scripted = self.script.acts
        if callable(scripted):
            did: Any = scripted(act)
        else:
            did = None if act.do in ("write", "read") else scripted.get(act_text(act))
            if callable(did) and not isinstance(did, BaseException):
                did = did(self)
        if inspect.isawaitable(did):
            did = await did
        if did is None and act.do in ("write", "read"):
            did = self._file(act)
        found: _Did = did
        return found

    def _file(self, act: Act) -> Ran:
        path = posixpath.relpath(posixpath.join(WORK, act.path), WORK)
        if any(name.startswith(path + "/") for name in self.files) or path == ".":
            return Ran(output=f"Is a directory: {act.path}".encode(), code=1)
        if act.do == "write":
            self.files[path] = act.data
            return Ran(code=0)
        if path not in self.files:
            return Ran(output=f"No such file or directory: {act.path}".encode(), code=1)
        return Ran(output=self.files[path], code=0)

    async def copy(self, *, last: bool, room: int, files: int) -> bytes:
        """See the base class."""
        if last:
            self.background.clear()
        await self._begin()
        self._fail("copy")
        tree = self.script.tree
        if isinstance(tree, bytes):
            return tree
        if tree is not None:
            return pack_tree(tree, room=room, count=files)
        found: Mapping[str, str | bytes | Entry] = {**self.files, **self.entries}
        return pack_tree(found, room=room, count=files)

    async def _begin(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closed:
            raise SandboxDiedError(f"the sandbox {self.id} is closed")
        if self._ended is not None:
            raise self._ended
        for running in list(self.background):
            running(self)

    def _fail(self, verb: Verb) -> None:
        try:
            self.script.fail(verb)
        except (SandboxDiedError, SandboxExpiredError) as error:
            self.end(error)
            raise

    async def close(self) -> None:
        """See the base class. Waits, as a remote provider's would."""
        if self.closed:
            return
        await anyio.lowlevel.checkpoint()
        self.closed = True
        self.background.clear()
        self.script.fail("close")


def _bounded(ran: Ran, act: Act) -> Ran:
    """``ran`` within the act's limits of time and output."""
    if ran.seconds > act.seconds:
        ran = replace(ran, code=None, timed_out=True, seconds=act.seconds)
    if len(ran.output) > act.output:
        half = act.output // 2
        missing = len(ran.output) - 2 * half
        middle = b"\n[%d bytes left out]\n" % missing
        ran = replace(ran, output=ran.output[:half] + middle + ran.output[-half:], cut=True)
    return ran
