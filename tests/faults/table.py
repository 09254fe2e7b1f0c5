"""The table: which part breaks, in which phase, and what must become of the run.

``always``: the fault strikes every attempt; ``once``: the first one alone. Each is one of

    true     the verdict that the answer has where nothing breaks
    none     no verdict
    zero     a verdict of 0 with a model fault
    verdict  some verdict, no better than the true one

or several of them, where the moment of the strike decides.
"""

from __future__ import annotations

import errno
import struct

from . import faults
from .cells import Cell
from .scene import FaultContext

__all__ = ["CELLS", "of"]

#: An inotify event that says that events were lost.
_OVERFLOW = struct.pack("iIII", -1, 0x4000, 0, 0)
_HOUR = 3600.0
#: Where the run is graded again or goes on; where the strike ends it.
_SHORT, _LONG = 0.05, 3.0

CELLS: list[Cell] = []


def _add(part: str, phase: str, at: str, fault: FaultContext, outcome: str, **more: object) -> None:
    always, _, once = outcome.partition("/")
    CELLS.append(Cell(part, phase, at, fault, always.strip(), (once or always).strip(), **more))  # type: ignore[arg-type]


_EITHER = ("cases", "program")
_ZYGOTE = frozenset({"policy_sandbox_failure"})

# The solution's zygote: SIGKILL.
_kill = faults.kill_zygote("solution")
_add("solution zygote", "queued", "ready", _kill, "true", tasks=_EITHER)
_add("solution zygote", "opened", "start", _kill, "none / true", tasks=_EITHER, role="solution")
_add("solution zygote", "placed", "send", _kill, "none / true", tasks=("held", "program"), role="solution")
_add(
    "solution zygote", "in play", "play", _kill, "zero / true", tasks=_EITHER, waiting=_SHORT, errors=_ZYGOTE
)
_add("solution zygote", "reported", "ended", _kill, "true", role="solution")
_add("solution zygote", "closed", "closed", _kill, "true", tasks=_EITHER)

# The verifier's zygote: SIGKILL.
_kill = faults.kill_zygote("verifier")
_add("verifier zygote", "queued", "ready", _kill, "true", tasks=("program",))
_add("verifier zygote", "opened", "start", _kill, "none / true", tasks=("program",))
_add("verifier zygote", "placed", "send", _kill, "none / true", tasks=("program",), role="verifier")
_add(
    "verifier zygote",
    "in play",
    "play",
    _kill,
    "zero / true",
    tasks=("program",),
    waiting=_SHORT,
    errors=_ZYGOTE,
)
# Whether its death is met before the solution's end decides if the run is graded once more.
_add(
    "verifier zygote",
    "reported",
    "ended",
    _kill,
    "true zero / true",
    tasks=("program",),
    role="verifier",
    errors=_ZYGOTE,
)
_add("verifier zygote", "closed", "closed", _kill, "true", tasks=("program",))

# The manager: SIGKILL, and both slots' zygotes with it.
_kill = faults.kill_manager()
_few = (6, 36)
_add("manager", "queued", "ready", _kill, "true", runs=_few, far=True)
_add("manager", "opened", "start", _kill, "none / true", runs=_few, far=True)
_add("manager", "placed", "send", _kill, "none / true", tasks=("held",), runs=_few, far=True)
_add(
    "manager", "in play", "play", _kill, "zero / true", waiting=_SHORT, errors=_ZYGOTE, runs=(8, 36), far=True
)
_add("manager", "reported", "ended", _kill, "true", runs=_few, far=True)
_add("manager", "closed", "closed", _kill, "true", runs=_few, far=True)

# The run's pid 1, and its own process beside it: SIGKILL.
for _first, _part in ((True, "run's pid 1"), (False, "solution's process")):
    _kill = faults.kill("solution", _first)
    _add(_part, "placed", "send", _kill, "none / true", tasks=("held",), role="solution")
    _add(_part, "in play", "play", _kill, "zero", tasks=_EITHER, waiting=_LONG)
    # Every reply was there and compared: what ends afterwards takes nothing away.
    _add(_part, "reported", "finish", _kill, "true", tasks=("one by one",))
for _first, _part in ((True, "verifier's pid 1"), (False, "verifier's process")):
    _kill = faults.kill("verifier", _first)
    _add(_part, "placed", "send", _kill, "none / true", tasks=("program",), role="verifier")
    _add(_part, "in play", "play", _kill, "zero", tasks=("program",), role="verifier", waiting=_LONG)
    _add(_part, "reported", "said", _kill, "zero", tasks=("lingering",), role="verifier")

# Our own code.
for _part, _fault in (
    ("supervisor", faults.bugs()),
    ("supervisor's memory", faults.no_memory()),
):
    _add(_part, "queued", "ready", _fault, "none / true", tasks=_EITHER)
    _add(_part, "opened", "start", _fault, "none / true", tasks=_EITHER)
    _add(_part, "placed", "send", _fault, "none / true", tasks=("held",))
    _add(_part, "in play", "play", _fault, "none", tasks=_EITHER, waiting=_SHORT)
    _add(_part, "reported", "ended", _fault, "none", tasks=_EITHER)
    _add(_part, "closed", "close", _fault, "true", tasks=_EITHER)
    _add(_part, "closed", "closed", _fault, "true", tasks=_EITHER)

# No space.
_add("ENOSPC", "queued", "ready", faults.failing(errno.ENOSPC), "none / true")
_add("ENOSPC", "opened", "start", faults.full, "none / true", tasks=("program",), role="verifier")
_add("ENOSPC", "in play", "play", faults.failing(errno.ENOSPC), "none", waiting=_SHORT)
_add("ENOSPC", "reported", "ended", faults.failing(errno.ENOSPC), "none")
_add("ENOSPC", "closed", "closed", faults.failing(errno.ENOSPC), "true")

# No descriptors.
_add("EMFILE", "queued", "spawn", faults.drop_descriptors, "none / true", fresh=True)
_add("EMFILE", "queued", "slot", faults.drop_descriptors, "none / true", fresh=True)
_add("EMFILE", "opened", "start", faults.drop_descriptors, "none / true", tasks=_EITHER)
_add(
    "EMFILE",
    "in play",
    "again",
    faults.drop_descriptors,
    "none",
    tasks=("one by one",),
    waiting=_SHORT,
    runs=(14, 36),
)
_add("EMFILE", "closed", "close", faults.drop_descriptors, "true", tasks=_EITHER)

# No further processes.
_add("EAGAIN", "queued", "spawn", faults.failing(errno.EAGAIN), "none / true", fresh=True)
_add("EAGAIN", "placed", "start", faults.unclonable("solution"), "none / true", role="solution")
# What an earlier process of the run left may be why: as with a zygote's death, the run is graded once more.
_add(
    "EAGAIN",
    "in play",
    "again",
    faults.unclonable("solution"),
    "zero / true",
    tasks=("one by one",),
    waiting=_SHORT,
    errors=_ZYGOTE,
    runs=(14, 36),
)

# The run's own file system.
_add("mount", "placed", "start", faults.unmountable, "none / true", tasks=_EITHER, role="solution")
_add("mount", "placed", "start", faults.unmountable, "none / true", tasks=("program",), role="verifier")
_add(
    "mount",
    "in play",
    "again",
    faults.unmountable,
    "zero / true",
    tasks=("one by one",),
    waiting=_SHORT,
    errors=_ZYGOTE,
    runs=(14, 36),
)

# Control groups.
_add("cgroup", "queued", "ready", faults.switch("no group"), "true", fresh=True)
_add("cgroup", "queued", "ready", faults.switch("no procs"), "none / true", fresh=True)
_add("cgroup", "opened", "ready", faults.switch("no limit"), "true", fresh=True)
_add(
    "cgroup",
    "in play",
    "play",
    faults.both(faults.unreadable("solution"), faults.kill("solution", False)),
    "zero",
    waiting=_LONG,
)
_add("cgroup", "closed", "ready", faults.switch("no removal"), "true", fresh=True)

# The verifier, ended by the kernel for memory.
_add(
    "verifier's memory",
    "placed",
    "send",
    faults.starving("verifier"),
    "none / true",
    tasks=("hungry early",),
    role="verifier",
)
_add(
    "verifier's memory",
    "in play",
    "play",
    faults.starving("verifier"),
    "zero",
    tasks=("hungry",),
    role="verifier",
    waiting=_SHORT,
)

# The watch.
_kill = faults.kill("verifier", False)
_add("watch", "queued", "ready", faults.switch("no watch"), "true", tasks=("program", "reading"), fresh=True)
_add("watch", "placed", "send", faults.deaf(_OVERFLOW), "true", tasks=("program", "reading"), role="verifier")
_add(
    "watch",
    "placed",
    "send",
    faults.both(faults.deaf(_OVERFLOW), _kill),
    "zero",
    tasks=("reading",),
    role="verifier",
)
_add(
    "watch",
    "in play",
    "play",
    faults.deaf(_OVERFLOW),
    "true",
    tasks=("program",),
    role="verifier",
    waiting=_SHORT,
)
_add("watch", "reported", "ended", faults.deaf(None), "none / true", tasks=("reading",), role="verifier")

# Frames.
_kill_first = faults.kill("solution", True)
_GARBAGE = b"\x00\xffnot a frame"
_add(
    "channel",
    "placed",
    "start",
    faults.corrupt(True, lambda data: b"?" + data[1:]),
    "none / true",
    role="solution",
)
_add(
    "channel",
    "in play",
    "start",
    faults.corrupt(False, lambda data: _GARBAGE + b"\n" + data),
    "verdict",
    role="solution",
)
_add(
    "channel",
    "reported",
    "start",
    faults.corrupt(False, lambda data: data + _GARBAGE + b"\n"),
    "verdict",
    role="solution",
)
_add(
    "report",
    "reported",
    "start",
    faults.corrupt(False, lambda data: _GARBAGE + data),
    "zero",
    tasks=("program",),
    role="verifier",
)
_add("control socket", "queued", "ready", faults.forged("solution", _GARBAGE), "true")
_add(
    "control socket",
    "placed",
    "send",
    faults.both(_kill_first, faults.forged("solution", _GARBAGE)),
    "none / true",
    tasks=("held",),
)
_add("control socket", "in play", "play", faults.forged("solution", _GARBAGE), "zero / true", waiting=_SHORT)

# Clocks.
_add("monotonic clock", "queued", "ready", faults.jump(_HOUR), "true", tasks=_EITHER)
_add("monotonic clock", "opened", "start", faults.jump(-_HOUR), "true", tasks=_EITHER, role="solution")
_add("monotonic clock", "opened", "start", faults.jump(_HOUR), "true", tasks=_EITHER, role="solution")
_add("monotonic clock", "placed", "send", faults.jump(_HOUR, stopped=True), "none / true", tasks=("held",))
_add("monotonic clock", "placed", "send", faults.jump(-_HOUR), "true", tasks=("held",))
# A run over its wall limit by the only clock there is can't be told from one that took that long.
_add(
    "monotonic clock",
    "in play",
    "play",
    faults.jump(_HOUR, stopped=True),
    "zero",
    waiting=_LONG,
    errors=frozenset({"solution_timeout"}),
)
_add("monotonic clock", "in play", "play", faults.jump(5.0), "true", tasks=_EITHER, waiting=_SHORT)
_add("monotonic clock", "in play", "play", faults.jump(-_HOUR), "true", tasks=_EITHER, waiting=_SHORT)
_add("monotonic clock", "reported", "ended", faults.jump(_HOUR), "true", tasks=_EITHER)
_add("monotonic clock", "closed", "closed", faults.jump(-_HOUR), "true", tasks=_EITHER)
for _phase, _at in (
    ("queued", "ready"),
    ("opened", "start"),
    ("placed", "send"),
    ("in play", "play"),
    ("reported", "ended"),
    ("closed", "closed"),
):
    _add(
        "wall clock",
        _phase,
        _at,
        faults.jump(1e9, wall=True),
        "true",
        tasks=("held", "program"),
        waiting=_SHORT * (_phase == "in play"),
    )
    _add(
        "wall clock",
        _phase,
        _at,
        faults.jump(-1e9, wall=True),
        "true",
        tasks=("held", "program"),
        waiting=_SHORT * (_phase == "in play"),
    )


def of(part: str, phase: str) -> list[Cell]:
    """The ways of breaking ``part`` in ``phase``."""
    return [cell for cell in CELLS if (cell.part, cell.phase) == (part, phase)]
