"""The local provider: slots of this host, each with warm zygotes, opened as runs ask for them."""

from __future__ import annotations

import os
import sys
import threading
import weakref

import anyio
import anyio.to_thread

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Capabilities, Spec

from .cgroup import Group
from .sandbox import LocalSandbox, Slot
from .slots import HostSlots, cores
from .zygotes import Manager

__all__ = ["LocalProvider"]


#: Seconds that a newcomer waits while others wait for a slot; those who wait look twice as often.
_BEAT = 0.002


class LocalProvider:
    """Runs answers on this host.

    Args:
        slots: Runs at once on this host, over all processes of this user. Defaults to the host's cores.

    A process that was forked from one that used a provider starts zygotes of its own; a pickled provider
    comes back unopened.
    """

    name = "local"

    def __init__(self, *, slots: int | None = None) -> None:
        if slots is not None and slots < 1:
            raise ValueError(f"slots={slots}: at least one slot is needed")
        self._requested = slots
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._manager: Manager | None = None
        self._slots: dict[int, Slot] = {}
        self._host = HostSlots(self.slots)
        self._in_use = 0
        self._alone = False

    def __getstate__(self) -> dict[str, object]:
        return {"slots": self._requested}

    def __setstate__(self, state: dict[str, int | None]) -> None:
        self._requested = state["slots"]
        self._reset()

    @property
    def slots(self) -> int:
        """How many runs can go on at once."""
        return self._requested or len(cores())

    @property
    def capabilities(self) -> Capabilities:
        """What is enforced here. Memory and process bounds are the group's where one can be made."""
        group = Group.make(f"deepgym-{os.getpid()}-probe")
        memory = group is not None and group.bounds_memory
        if group is not None:
            group.remove()
        return Capabilities(
            isolation="namespaces",
            files="enforced",
            network="enforced",
            pids="enforced",
            memory="enforced" if memory else "rlimit",
            disk="enforced",
        )

    async def open(self, spec: Spec) -> LocalSandbox:
        """A slot of this host; waits while all are taken.

        Raises:
            SandboxError: this host can't isolate a run; the text says what is missing and the remedy.
        """
        self._check_process()
        number = await self._acquire(spec.alone)
        try:
            slot = self._slots.get(number)
            if slot is None or (spec.verifier and slot.verifier is None):
                slot = await anyio.to_thread.run_sync(self._prepare, number, spec.verifier)
        except BaseException:
            self._release(number)
            raise
        return LocalSandbox(slot, spec, self._give_back)

    async def _acquire(self, alone: bool) -> int:
        number = None if self._host.somebody_waits() else self._take(alone)
        if number is not None:
            return number
        self._host.begin_waiting()
        try:
            # Newcomers see that somebody waits and hold back for one beat, so nobody starves.
            await anyio.sleep(_BEAT)
            while (number := self._take(alone)) is None:
                await anyio.sleep(_BEAT / 2)
            return number
        finally:
            self._host.end_waiting()

    def _take(self, alone: bool) -> int | None:
        if self._alone or (alone and self._in_use):
            return None
        number = self._host.acquire()
        if number is not None:
            self._in_use += 1
            self._alone = alone
        return number

    def _release(self, number: int) -> None:
        self._host.release(number)
        self._in_use -= 1
        self._alone = False

    def _give_back(self, sandbox: LocalSandbox) -> None:
        if sandbox.broken:
            self._slots.pop(sandbox.slot.number, None)
            sandbox.slot.close()
        self._release(sandbox.slot.number)

    def _prepare(self, number: int, verifier: bool) -> Slot:
        """The slot's zygotes, started. Blocking."""
        with self._lock:
            if self._manager is None or not self._manager.alive():
                self._drop()
                self._manager = Manager()
                _track(self)
            manager = self._manager
        usable = cores()
        cpu = usable[number % len(usable)]
        slot = self._slots.get(number)
        if slot is None:
            group = Group.make(f"deepgym-{os.getpid()}-{number}")
            solution = manager.zygote("solution", number, cpu, group.procs() if group else [])
            slot = self._slots[number] = Slot(number, solution, group)
        if verifier and slot.verifier is None:
            group = Group.make(f"deepgym-{os.getpid()}-{number}v")
            slot.add_verifier(manager.zygote("verifier", number, cpu, group.procs() if group else []), group)
        return slot

    def _drop(self) -> None:
        for slot in self._slots.values():
            slot.close()
        self._slots.clear()
        if self._manager is not None:
            self._manager.close()
            self._manager = None

    def _check_process(self) -> None:
        if not sys.platform.startswith("linux"):
            raise SandboxError(
                f"the local sandbox needs Linux, and this is {sys.platform}. "
                "Use a remote provider or a Linux machine; everything else in deepgym works here."
            )
        if self._pid != os.getpid():
            self._forget()

    def _forget(self) -> None:
        """In a forked child: let go of the parent's descriptors and start afresh."""
        for slot in self._slots.values():
            slot.forget()
        self._host.forget()
        if self._manager is not None:
            self._manager.forget()
        self._reset()

    async def close(self) -> None:
        """End every zygote. The provider can be used again afterwards."""
        await anyio.to_thread.run_sync(self.close_now)

    def close_now(self) -> None:
        """``close``, blocking."""
        if self._pid == os.getpid():
            with self._lock:
                self._drop()
            self._host.forget()


_open_providers: weakref.WeakSet[LocalProvider] = weakref.WeakSet()
_hooked = False


def _track(provider: LocalProvider) -> None:
    """From the first use on, forked children drop what they inherit and exits leave nothing behind."""
    global _hooked
    _open_providers.add(provider)
    if not _hooked:
        _hooked = True
        import atexit

        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_at_exit)


def _after_fork() -> None:
    for provider in list(_open_providers):
        provider._forget()
    _open_providers.clear()


def _at_exit() -> None:
    for provider in list(_open_providers):
        provider.close_now()
