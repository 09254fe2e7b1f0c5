"""The tiers ``landlock`` and ``unsafe``: runs beside all other processes, for hosts without namespaces.

``landlock``: each run is under Landlock (files, signals), a system-call filter (network, foreign processes,
what outlives a process) and rlimits, in a directory of its own. Where this process is root, as in most
containers, each slot's runs have a user id of their own besides. ``unsafe`` has the directory and the rlimits
alone: no wall at all.

Without a pid namespace, whatever a run leaves behind comes back to its zygote, which is its subreaper, and
ends there; when the zygote ends, the manager takes its place.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import time
from typing import Any, NoReturn

from . import kernel, landlock, limits, seccomp
from .boxes import Boxes, remove, state, sweep
from .limits import make
from .root import packages, shown
from .zygote import Server, Setting, clone

__all__ = ["Beside", "BesidePlan", "BesideServer"]

_BASE = "/tmp"
_DEVICES = ("null", "zero", "full", "random", "urandom")
#: Where user ids of slots begin, in order of preference; a container may map few ids.
_RUN_UID = 1000
_FEW_UIDS = 60000
#: Processes that the user's other programs may start while a run goes on, before its own bound is met.
_OTHERS = 64
_CLEAR_SECONDS = 10.0


class Beside(Setting):
    """See ``Setting``."""

    def __init__(self, walls: bool) -> None:
        self.walls, self.root = walls, os.geteuid() == 0
        self.version, self.path, self.folder, self.lock = 0, "", "", -1
        self.rules: list[tuple[int, int]] = []
        self.uid: int | None = None

    def prepare(self, config: dict[str, Any]) -> None:
        """See the base class."""
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        if self.walls:
            self.version = landlock.version()
            if self.version == 0:
                raise OSError(errno.ENOSYS, "this kernel has no Landlock")
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            roots = ["/" + name for name in shown(config["prefix"])]
            hidden = {os.path.realpath(path) for path in (*config["hidden"], *packages(roots))}
            for path in sorted({os.path.realpath(one) for one in roots}):
                self._show(path, hidden)
            devices = [path for path in map("/dev/".__add__, _DEVICES) if os.path.exists(path)]
            self.rules += [(os.open(path, os.O_PATH | os.O_CLOEXEC), landlock.USE) for path in devices]
        sweep(_BASE)
        self.path, self.lock = state(_BASE)

    def _show(self, path: str, hidden: set[str]) -> None:
        """Rules for all below ``path`` but what is hidden. Names stay to be seen, contents don't."""
        if path in hidden:
            return
        split = any(one.startswith(path + "/") for one in hidden)
        if os.path.islink(path):
            return
        self.rules.append(
            (os.open(path, os.O_PATH | os.O_CLOEXEC), landlock.LIST if split else landlock.READ)
        )
        if split:
            for name in sorted(os.listdir(path)):
                self._show(os.path.join(path, name), hidden)

    def answers(self, slot: int) -> int:
        """See the base class."""
        place = self._answers(slot)
        os.makedirs(place, exist_ok=True)
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _answers(self, slot: int) -> str:
        return "%s/answers-%d" % (self.path, slot)

    def enter(self, request: dict[str, Any]) -> str:
        """See the base class."""
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        verifier = request["role"] == "verifier"
        if self.walls and self.root:
            self.uid = _own_uid(request["uid"] + _RUN_UID, request["slot"] * 2 + verifier)
            _require_readable(self.uid)
        place = self._answers(request["slot"])
        if self.walls and verifier:
            self.rules.append((os.open(place, os.O_PATH | os.O_CLOEXEC), landlock.READ))
        self.folder = "%s/%s-%d" % (self.path, request["role"], os.getpid())
        os.chdir("/")
        return place + "/solution"

    def server(self, control: socket.socket, null: int, request: dict[str, Any]) -> Server:
        """See the base class."""
        if request["role"] == "session":
            raise OSError(errno.ENOSYS, "sessions need namespaces, and this tier has none")
        return BesideServer(control, request["role"] == "verifier", null, self)

    def leave(self) -> None:
        """See the base class."""
        try:
            remove(self.path)
        except OSError:
            pass  # the next manager sweeps


def _own_uid(wanted: int, number: int) -> int:
    """A user id for a slot's runs that this user namespace knows."""
    with open("/proc/self/uid_map") as table:
        ranges = [tuple(map(int, line.split())) for line in table]
    for uid in (wanted, _FEW_UIDS + number):
        if any(first <= uid < first + count for first, _, count in ranges):
            return uid
    raise OSError(errno.EINVAL, "no user id can be given to answers: this container maps too few of them")


def _require_readable(uid: int) -> None:
    """Every answer that imports from a library that its user can't read would be blamed for that."""
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        os.close(os.open(os.__file__, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        text = "the interpreter's library can't be read by other users; use one that all can read"
        raise OSError(error.errno, text, os.__file__) from None
    finally:
        os.seteuid(0)
        os.setegid(0)


class BesideServer(Server):
    """Each child in a box of its own; what it leaves behind comes back here and ends."""

    def __init__(self, control: socket.socket, verifier: bool, null: int, setting: Beside) -> None:
        super().__init__(control, verifier, null)
        self.setting = setting
        self.boxes = Boxes(setting.folder, setting.uid)
        self.box = ""
        self.removers: set[int] = set()
        self.child = kernel.clone_arguments(0)

    def plan(self, spec: dict[str, Any]) -> BesidePlan:
        """See the base class. Raises ``OSError`` for what this tier can't give."""
        if spec.get("loopback"):
            raise OSError(errno.ENOSYS, "loopback needs a network namespace, and this tier has none")
        return BesidePlan(spec, self.setting)

    def start(self, plan: BesidePlan, fds: tuple[int, ...]) -> int:
        """See the base class."""
        self._see_off(os.WNOHANG)
        self.box = plan.box = self.boxes.new()
        if self.setting.walls:
            place = os.open(self.box, os.O_PATH | os.O_CLOEXEC)
            rules = (*self.setting.rules, (place, landlock.BOX))
            plan.ruleset = landlock.ruleset(self.setting.version, rules)
            os.close(place)
        pid = clone(self.child)
        if pid != 0 and plan.ruleset >= 0:
            os.close(plan.ruleset)
        return pid

    def kill(self, pid: int) -> None:
        """See the base class. The rest follows when the child's end was seen."""
        os.kill(pid, signal.SIGKILL)

    def clear(self) -> None:
        """See the base class."""
        deadline = time.monotonic() + _CLEAR_SECONDS
        while self._kill_the_rest():
            if time.monotonic() > deadline:
                os._exit(1)  # the manager goes on killing
        if not self.boxes.emptied(self.box):
            remover = clone(self.child)
            if remover == 0:
                self._remove(self.box)
            if remover > 0:  # else the manager removes it with the rest
                self.removers.add(remover)

    def _kill_the_rest(self) -> bool:
        """Kill every child but removers; whether there were any."""
        with open("/proc/self/task/%d/children" % os.getpid()) as children:
            doomed = [pid for pid in map(int, children.read().split()) if pid not in self.removers]
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            os.waitpid(pid, 0)
        return bool(doomed)

    def _see_off(self, how: int) -> None:
        """Take notice of removers that are done."""
        for pid in list(self.removers):
            if os.waitpid(pid, how)[0]:
                self.removers.discard(pid)

    def _remove(self, box: str) -> NoReturn:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            remove(box)
        except OSError:
            pass  # the manager removes all that is left
        os._exit(0)


class BesidePlan(limits.Plan):
    """Into the box, behind the walls."""

    def __init__(self, spec: dict[str, Any], setting: Beside) -> None:
        super().__init__(spec, setting.uid)
        self.setting, self.processes = setting, spec["processes"]
        self.box, self.ruleset = "", -1
        self.filter: Any = None
        if setting.walls:
            self.filter = seccomp.program(beside="own" if setting.uid is None else "other")

    def enter(self, null: int, fds: tuple[int, ...]) -> None:
        """See the base class."""
        os.chdir(self.box)
        os.environ.update(HOME=self.box, TMPDIR=self.box + "/tmp")
        make(self.apart)
        if self.setting.uid is None:
            make([limits.bound(resource.RLIMIT_NPROC, self.processes + _OTHERS + _tasks())])
        else:
            make(self.identity)
        make(self.dumpable)
        limits.prefer_for_oom()
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        make(self.no_privileges)
        if self.ruleset >= 0:
            landlock.restrict(self.ruleset)
        self.arrange(null, fds)
        make(self.bounds)
        if self.filter is not None:
            make(self.filtered(self.filter))


def _tasks() -> int:
    """How many threads this process's user has: an rlimit counts them all together."""
    uid, found = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    found += len(os.listdir(entry.path + "/task"))
            except OSError:
                pass
    return found
