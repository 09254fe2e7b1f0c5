"""A memory and process bound for each slot, where this process may write control groups.

Version 2 and version 1 hierarchies are found through ``/proc/self/cgroup``. A slot's zygotes are born into
the group, so a run costs no attach. Where nothing can be written, ``Group.make`` returns ``None`` and the
rlimits alone bound a run.
"""

from __future__ import annotations

import functools
import glob
import os
import time

__all__ = ["Group", "prefixes", "remove_left"]

_ROOT = "/sys/fs/cgroup"
_OWN = "/proc/self/cgroup"


def _places() -> list[tuple[str, str]]:
    """Directories in which groups can be made for this process: ("v2" | "memory" | "pids", path)."""
    found: list[tuple[str, str]] = []
    try:
        with open(_OWN) as table:
            lines = [line.rstrip("\n").split(":", 2) for line in table]
    except OSError:
        return found
    for _, controllers, path in lines:
        names = controllers.split(",")
        if controllers == "" and os.path.exists(f"{_ROOT}/cgroup.controllers"):
            own = f"{_ROOT}{path}".rstrip("/")
            # A group that holds processes can have no controlled children, so ours has to be its sibling.
            found.extend(("v2", place) for place in (os.path.dirname(own), own) if place.startswith(_ROOT))
        found.extend(
            (name, f"{_ROOT}/{name}{path}".rstrip("/")) for name in ("memory", "pids") if name in names
        )
    return found


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as target:
            target.write(text)
    except OSError:
        return False
    return True


def _remove(path: str) -> bool:
    """Remove a group; whether it is gone. One that holds a dying process can't be removed yet."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


#: Groups of this process that held a dying process when they should have gone.
_left: set[str] = set()


def remove_left(seconds: float = 0.0) -> None:
    """Remove what couldn't be removed before, for as long as ``seconds``. Never raises."""
    until = time.monotonic() + seconds
    while _left:
        _left.difference_update([path for path in list(_left) if _remove(path)])
        if not _left or time.monotonic() >= until:
            return
        time.sleep(0.005)


def prefixes() -> list[str]:
    """How the paths of all groups begin that this process makes."""
    return [f"{place}/deepgym-{os.getpid()}-" for _, place in _places()]


@functools.cache
def _sweep() -> None:
    """Remove groups of processes that are gone, once per process."""
    for _, place in _places():
        for path in glob.glob(f"{place}/deepgym-*"):
            owner = os.path.basename(path).split("-")[1]
            if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                _remove(path)


class Group:
    """One slot's group; limits are written only when they change."""

    def __init__(self, memory: str | None, memory_file: str, pids: str | None) -> None:
        self._memory, self._memory_file, self._pids = memory, memory_file, pids
        self._last: tuple[int, int] | None = None
        self._kills = 0

    @classmethod
    def make(cls, name: str) -> Group | None:
        """A new group called ``name``, or ``None`` where neither memory nor processes can be bounded."""
        memory = pids = None
        memory_file = ""
        _sweep()
        remove_left()
        for kind, place in _places():
            if kind == "v2" and memory is not None:
                continue
            path = f"{place}/{name}"
            _remove(path)
            try:
                os.mkdir(path)
            except OSError:
                continue
            if kind == "v2" and os.path.exists(f"{path}/memory.max"):
                memory, memory_file = path, "memory.max"
                pids = path if os.path.exists(f"{path}/pids.max") else None
            elif kind == "memory" and os.path.exists(f"{path}/memory.limit_in_bytes"):
                memory, memory_file = path, "memory.limit_in_bytes"
            elif kind == "pids" and os.path.exists(f"{path}/pids.max"):
                pids = path
            else:
                _remove(path)
        return cls(memory, memory_file, pids) if memory or pids else None

    @property
    def bounds_memory(self) -> bool:
        return self._memory is not None

    @property
    def bounds_pids(self) -> bool:
        return self._pids is not None

    def procs(self) -> list[str]:
        """Files into which a process's pid is written to put it here."""
        return [f"{path}/cgroup.procs" for path in {self._memory, self._pids} if path is not None]

    def limit(self, memory: int, processes: int) -> None:
        """Bound the group. A write that is refused leaves the previous bound."""
        if self._last == (memory, processes):
            return
        self._last = (memory, processes)
        if self._memory is not None:
            _write(f"{self._memory}/{self._memory_file}", str(memory))
        if self._pids is not None:
            _write(f"{self._pids}/pids.max", str(processes))

    def oom_killed(self) -> bool:
        """Whether the kernel ended something here for memory since the last call."""
        if self._memory is None:
            return False
        name = "memory.events" if self._memory_file == "memory.max" else "memory.oom_control"
        try:
            with open(f"{self._memory}/{name}") as counters:
                kills = sum(int(line.split()[1]) for line in counters if line.startswith("oom_kill "))
        except (OSError, ValueError):
            return False
        moved, self._kills = kills > self._kills, kills
        return moved

    def remove(self) -> None:
        """Remove the group; one that still holds a dying process goes with the next one that is made."""
        for path in {self._memory, self._pids}:
            if path is not None and not _remove(path):
                _left.add(path)
