"""Processes of the sandbox, seen and ended from outside; and what is left of a client."""

from __future__ import annotations

import contextlib
import gc
import glob
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from deepgym.providers.local import cgroup

__all__ = [
    "children",
    "end_and_wait",
    "end_zygote",
    "gone",
    "groups_of",
    "inside",
    "left_behind",
    "leftovers",
    "pid_of",
    "stopped",
]

PATIENCE = 10.0
_monotonic = time.monotonic


def pid_of(zygote: Any) -> int:
    """A zygote's pid as this process sees it; -1 if it was reaped."""
    with open(f"/proc/self/fdinfo/{zygote.pidfd}") as info:
        return next(int(line.split()[1]) for line in info if line.startswith("Pid:"))


def children(zygote: Any) -> list[int]:
    """Pids of the run's first process and of its own process, in this order, as far as they are there."""
    pid = pid_of(zygote)
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as listed:
            for child in map(int, listed.read().split()):
                with open(f"/proc/{child}/status") as status:
                    inner = next(line.split()[-1] for line in status if line.startswith("NSpid:"))
                found.append((inner != "1", child))
    except (OSError, StopIteration):
        return []
    return [child for _, child in sorted(found)]


def stopped(pid: int) -> bool:
    """SIGSTOP, and wait until it stands still; ``False`` if it ended."""
    deadline = _monotonic() + PATIENCE
    try:
        os.kill(pid, signal.SIGSTOP)
        while _monotonic() < deadline:
            with open(f"/proc/{pid}/stat") as stat:
                state = stat.read().rpartition(")")[2].split()[0]
            if state in "TtZX":
                return state in "Tt"
    except (ProcessLookupError, FileNotFoundError):
        pass
    return False


def end_and_wait(target: int, last: int) -> bool:
    """SIGKILL to ``target``, and wait until ``last`` is gone too; ``False`` if either was gone before."""
    with contextlib.ExitStack() as stack:
        try:
            pidfds = [os.pidfd_open(pid) for pid in (target, last)]
            for fd in pidfds:
                stack.callback(os.close, fd)
            signal.pidfd_send_signal(pidfds[0], signal.SIGKILL)
        except ProcessLookupError:
            return False
        return all(map(gone, pidfds))


def leftovers() -> set[str]:
    """Descriptors of this process, its children, and the control groups that it made."""
    found = {f"group {path}" for path in groups_of(os.getpid())}
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as listed:
            found.update(f"child {pid}" for pid in listed.read().split())
    return found | {f"descriptor {fd}" for fd in os.listdir("/proc/self/fd")}


def left_behind(look: Callable[[], set[str]], before: set[str]) -> set[str]:
    """What ``look`` finds and ``before`` hasn't, once nothing more goes: a control group that is busy still
    is removed later, and a thread may hold what it worked on for a moment longer.
    """
    deadline = _monotonic() + PATIENCE
    while (left := look() - before) and _monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return left


def groups_of(pid: int) -> list[str]:
    """Control groups that the process ``pid`` made and that are still there."""
    return [path for _, place in cgroup._places() for path in glob.glob(f"{place}/deepgym-{pid}-*")]


def inside(pool_of: Any) -> list[int]:
    """Pids of everything that a pool has started and that lives."""
    found = [pool_of.manager.process.pid] if pool_of.manager else []
    # A copy: another thread may be adding a slot just now.
    for slot in list(pool_of.slots.values()):
        for zygote in (slot.solution, slot.verifier):
            if zygote is not None:
                found += [pid_of(zygote), *children(zygote)]
    return [pid for pid in found if pid > 0]


def end_zygote(zygote: Any) -> bool:
    try:
        signal.pidfd_send_signal(zygote.pidfd, signal.SIGKILL)
    except OSError:
        return False
    return gone(zygote.pidfd)


def gone(pidfd: int) -> bool:
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    return bool(ended.poll(int(PATIENCE * 1000)))
