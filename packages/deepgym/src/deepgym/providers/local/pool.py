"""What a provider has open in one process: a manager, its zygotes by slot, the host's locks."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref

from deepgym.exceptions import SandboxError
from deepgym.providers.base import Place

from .cgroup import Group, remove_left
from .room import Room
from .sandbox import Slot
from .slots import HostSlots, cores
from .standing import Standing
from .tiers import AUTO, TIERS, capabilities, fallback, start
from .zygotes import Manager, RefusedError, Zygote

__all__ = ["Pool"]

_numbers = itertools.count()
#: How long a closing client waits for the kernel to let go of control groups whose processes are dead.
_GROUP_SECONDS = 2.0


class Pool:
    """Opened on first use, and closed with its provider, with the process, or by hand."""

    def __init__(self, count: int, tier: str, sessions: int) -> None:
        self.pid = os.getpid()
        self.count, self.tier = count, tier
        self.slots: dict[int, Slot] = {}
        self.manager: Manager | None = None
        self.room = Room(sessions)
        self.standing: set[Standing] = set()
        self._host = HostSlots(count)
        self._lock = threading.Lock()
        self.in_use = 0
        self._alone = False
        _pools.add(self)

    def somebody_waits(self) -> bool:
        """Whether a newcomer should let others go first."""
        return self._host.somebody_waits()

    def begin_waiting(self) -> None:
        """Say that somebody here waits for a slot."""
        self._host.begin_waiting()

    def end_waiting(self) -> None:
        """Take it back."""
        self._host.end_waiting()

    def take(self, alone: bool) -> int | None:
        """A free slot's number, or ``None``. ``alone``: only when no other is in use here."""
        if self._alone or (alone and self.in_use):
            return None
        number = self._host.acquire()
        if number is not None:
            self.in_use += 1
            self._alone = alone
        return number

    def release(self, number: int) -> None:
        """Give a slot back."""
        self._host.release(number)
        self.in_use -= 1
        self._alone = False

    def keeps(self, slot: Slot) -> bool:
        """Whether the slot will be used again; if not, whoever uses it now is to discard it."""
        return self.slots.get(slot.number) is slot

    def discard(self, slot: Slot) -> None:
        """End a slot's zygotes: something went wrong with them."""
        if self.keeps(slot):
            del self.slots[slot.number]
        slot.close()

    def ready(self, number: int, verifier: bool) -> Slot | None:
        """The slot, if its zygotes stand. One whose zygotes died meanwhile is done away with."""
        slot = self.slots.get(number)
        if slot is not None and not slot.idle():
            self.discard(slot)
            slot = None
        return None if slot is None or (verifier and slot.verifier is None) else slot

    def prepare(self, number: int, verifier: bool) -> Slot:
        """Start the slot's zygotes. Blocking; raises ``SandboxError`` if the host can't give them."""
        manager = self._started(number)
        slot = self.slots.get(number)
        if slot is None:
            try:
                solution, group = _zygote(manager, "solution", number)
            except RefusedError as error:
                if self.tier != AUTO:
                    raise
                manager = self._fall_back(error, manager)
                solution, group = _zygote(manager, "solution", number)
            try:
                slot = Slot(number, solution, group, capabilities(manager.tier, group))
            except BaseException:
                _end(solution, group)
                raise
            self.slots[number] = slot
        if verifier and slot.verifier is None:
            zygote, group = _zygote(manager, "verifier", number)
            try:
                slot.add_verifier(zygote, group)
            except BaseException:
                _end(zygote, group)
                self.discard(slot)
                raise
        return slot

    def host(self, place: Place) -> Standing:
        """A session's sandbox, for which there is room: that is given back when it ends. Blocking; raises
        ``SandboxError`` if the host can't give it.
        """
        manager = self._started(None)
        if manager.tier != TIERS[0]:
            raise SandboxError(
                f"a session needs namespaces, and this host's tier is {manager.tier!r}; `deepgym doctor` "
                "says why. Use another provider (mode='docker') for sessions."
            )
        standing = Standing.open(manager, place)
        standing.when_closed += [functools.partial(self.standing.discard, standing), self.room.leave]
        self.standing.add(standing)
        return standing

    def _started(self, mine: int | None) -> Manager:
        """The manager; a new one if there is none, or none that lives."""
        with self._lock:
            if self.manager is None or not self.manager.alive():
                self._drop(mine)
                self.manager = start(self.tier)
            return self.manager

    def _fall_back(self, error: RefusedError, refused: Manager) -> Manager:
        """Another tier's manager, where this host refused even the first zygote its namespaces."""
        with self._lock:
            if self.manager is refused:
                found = fallback(error)
                self._drop(None)
                self.manager = found
            assert self.manager is not None
            return self.manager

    def _drop(self, mine: int | None) -> None:
        """End all zygotes. A slot in use, unless it is ``mine``, is closed by whoever uses it: its numbers of
        descriptors must not become somebody else's under a run.
        """
        for number, slot in list(self.slots.items()):
            del self.slots[number]
            if number == mine or not self._host.holds(number):
                slot.close()
        if self.manager is not None:
            self.manager.close()
            self.manager = None

    def close(self) -> None:
        """End every zygote. Blocking. Does nothing in a process that only inherited the pool."""
        if self.pid == os.getpid():
            for standing in list(self.standing):
                standing.end()
            with self._lock:
                self._drop(None)
                self._host.forget()
                remove_left(_GROUP_SECONDS)

    def forget(self) -> None:
        """In a forked child: let go of the parent's descriptors, and leave its zygotes alone."""
        for standing in list(self.standing):
            standing.forget()
        self.standing.clear()
        for slot in list(self.slots.values()):
            slot.forget()
        self.slots.clear()
        self._host.forget()
        if self.manager is not None:
            self.manager.forget()
            self.manager = None


def _zygote(manager: Manager, role: str, number: int) -> tuple[Zygote, Group | None]:
    """A new zygote on the slot's core, and the control group that it was born into, where one can be made."""
    usable = cores()
    group = Group.make(f"deepgym-{os.getpid()}-{next(_numbers)}")
    try:
        procs = [] if group is None else group.procs()
        return manager.zygote(role, number, usable[number % len(usable)], procs), group
    except BaseException:
        _end(None, group)
        raise


def _end(zygote: Zygote | None, group: Group | None) -> None:
    """Take back what ``_zygote`` made."""
    if zygote is not None:
        zygote.close()
    if group is not None:
        group.remove()


#: Pools of this process; a forked child forgets those that it inherits.
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
