"""The local provider: slots of this host, each with warm zygotes, opened as runs ask for them."""

from __future__ import annotations

import logging
import math
import os
import time
import weakref
from typing import Any

import anyio
import anyio.to_thread

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Capabilities, Spec

from .cgroup import Group
from .pool import Pool
from .sandbox import LocalSandbox
from .slots import cores
from .tiers import AUTO, TIERS, capabilities, chosen, elsewhere

__all__ = ["LocalProvider"]

#: Seconds that a newcomer waits while others wait for a slot; those who wait look twice as often.
_BEAT = 0.002
#: Seconds of waiting after which it is said.
_SAY = 60

_log = logging.getLogger(__name__)


class LocalProvider:
    """Runs answers on this host.

    Args:
        slots: Runs at once on this host, over all processes of this user. Defaults to the host's cores.
        isolation: The walls of a run: ``namespaces``, ``landlock``, or ``unsafe``, which has none and is for
            answers that you wrote. ``auto``: namespaces; where this host refuses them, Landlock if it holds
            here, which is said once; else an error with the remedy. Never ``unsafe`` by itself.

    A process that was forked from one that used a provider starts zygotes of its own; a pickled provider
    comes back unopened.
    """

    name = "local"

    def __init__(self, *, slots: int | None = None, isolation: str = AUTO) -> None:
        if slots is not None and slots < 1:
            raise ValueError(f"slots={slots}: at least one slot is needed")
        if isolation not in (AUTO, *TIERS):
            raise ValueError(f"isolation={isolation!r}: one of {', '.join((AUTO, *TIERS))} is needed")
        self._requested, self.isolation = slots, isolation
        self._open: Pool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"slots": self._requested, "isolation": self.isolation}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._requested, self.isolation = state["slots"], state["isolation"]
        self._open = None

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
        number = await self._acquire(pool, spec.alone)
        try:
            slot = pool.ready(number, spec.verifier)
            if slot is None:
                slot = await anyio.to_thread.run_sync(pool.prepare, number, spec.verifier)
        except BaseException:
            pool.release(number)
            raise
        return LocalSandbox(slot, spec, pool)

    def _pool(self) -> Pool:
        if (refusal := elsewhere()) is not None:
            raise SandboxError(refusal)
        pool = self._open
        if pool is None or pool.pid != os.getpid():
            pool = self._open = Pool(self.slots, self.isolation)
            weakref.finalize(self, pool.close)
        return pool

    async def _acquire(self, pool: Pool, alone: bool) -> int:
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
                    _log.warning("waiting for one of this host's %d slots for %d s", self.slots, _SAY)
            return number
        finally:
            pool.end_waiting()

    async def close(self) -> None:
        """End every zygote. The provider can be used again afterwards."""
        pool, self._open = self._open, None
        if pool is not None:
            await anyio.to_thread.run_sync(pool.close)
