"""The local provider: slots of this host, each with warm zygotes, opened as runs ask for them."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Capabilities, Place, Spec

from .cgroup import Group
from .pool import Pool
from .sandbox import LocalSandbox
from .slots import cores
from .standing import Standing
from .threads import in_thread
from .tiers import AUTO, TIERS, capabilities, chosen, elsewhere
from .workspace import LocalWorkspace

__all__ = ["LocalProvider"]

#: Seconds that a newcomer waits while others wait for a slot; those who wait look twice as often.
_BEAT = 0.002
#: Seconds of waiting after which it is said.
_SAY = 60
MAX_SESSIONS = 64

_log = logging.getLogger(__name__)


class LocalProvider:
    """Runs answers on this host.

    Args:
        slots: Runs at once on this host, over all processes of this user. Defaults to the host's cores.
        isolation: The walls of a run: ``namespaces``, ``landlock``, or ``unsafe``, which has none and is for
            answers that you wrote. ``auto``: namespaces; where this host refuses them, Landlock if it holds
            here, which is said once; else an error with the remedy. Never ``unsafe`` by itself.
        max_sessions: Sessions open at once; more wait. They use a core only while a step goes on.

    A process that was forked from one that used a provider starts zygotes of its own; a pickled provider
    comes back unopened.
    """

    name = "local"

    def __init__(
        self, *, slots: int | None = None, isolation: str = AUTO, max_sessions: int = MAX_SESSIONS
    ) -> None:
        if max_sessions < 1:
            raise ValueError(f"max_sessions={max_sessions}: at least one session must be allowed")
        if slots is not None and slots < 1:
            raise ValueError(f"slots={slots}: at least one slot is needed")
        if isolation not in (AUTO, *TIERS):
            raise ValueError(f"isolation={isolation!r}: one of {', '.join((AUTO, *TIERS))} is needed")
        self._requested, self.isolation, self.max_sessions = slots, isolation, max_sessions
        self._open: Pool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"slots": self._requested, "isolation": self.isolation, "max_sessions": self.max_sessions}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def slots(self) -> int:
        """How many runs can go on at once."""
        return self._requested or len(cores())

    @property
    def capabilities(self) -> Capabilities:
        """What is enforced here. Memory and processes are a control group's where one can be made.

        Raises:
            SandboxError: this host can give no walls; the text says why, and the remedy.
        """
        tier = chosen() if self.isolation == AUTO else self.isolation
        group = Group.make(f"deepgym-{os.getpid()}-probe")
        try:
            return capabilities(tier, group)
        finally:
            if group is not None:
                group.remove()

    async def open(self, spec: Spec) -> LocalSandbox:
        """A slot of this host; waits while all are taken.

        Raises:
            SandboxError: this host can't isolate a run; the text says what is missing and the remedy.
        """
        pool = self._pool()
        number = await _acquire(pool, spec.alone)
        try:
            slot = pool.ready(number, spec.verifier)
        except BaseException:
            pool.release(number)
            raise
        if slot is None:
            slot = await in_thread(
                lambda: pool.prepare(number, spec.verifier), lambda _: pool.release(number)
            )
        return LocalSandbox(slot, spec, pool)

    async def host(self, place: Place) -> LocalWorkspace:
        """A sandbox for a session; waits while ``max_sessions`` are open.

        Raises:
            SandboxError: this host can't isolate a session; the text says what is missing and the remedy.
        """
        pool = self._pool()
        await pool.room.enter()

        def undo(standing: Standing | None) -> None:
            if standing is None:
                pool.room.leave()
            else:
                standing.end()

        standing = await in_thread(lambda: pool.host(place), undo)
        tier = capabilities(TIERS[0], standing.group)
        return LocalWorkspace(standing, tier, functools.partial(_turn, pool))

    def _pool(self) -> Pool:
        if (refusal := elsewhere()) is not None:
            raise SandboxError(refusal)
        pool = self._open
        if pool is None or pool.pid != os.getpid():
            pool = self._open = Pool(self.slots, self.isolation, self.max_sessions)
            weakref.finalize(self, pool.close)
        return pool

    async def close(self) -> None:
        """End every zygote. The provider can be used again afterwards."""
        pool, self._open = self._open, None
        if pool is not None:
            await anyio.to_thread.run_sync(pool.close)


async def _acquire(pool: Pool, alone: bool) -> int:
    """A free slot's number; waits while all are taken."""
    number = None if pool.somebody_waits() else pool.take(alone)
    if number is not None:
        return number
    pool.begin_waiting()
    try:
        # Newcomers see that somebody waits and hold back for one beat, so nobody starves.
        await anyio.sleep(_BEAT)
        said = time.monotonic() + _SAY
        while (number := pool.take(alone)) is None:
            await anyio.sleep(_BEAT / 2)
            if time.monotonic() > said:
                said = math.inf
                _log.warning("waiting for one of this host's %d slots for %d s", pool.count, _SAY)
        return number
    finally:
        pool.end_waiting()


@contextlib.asynccontextmanager
async def _turn(pool: Pool) -> AsyncIterator[None]:
    """One of the host's slots, for as long as something runs that an agent asked for."""
    number = await _acquire(pool, False)
    try:
        yield
    finally:
        pool.release(number)
