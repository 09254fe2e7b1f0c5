"""The table of an episode's faults: which part breaks, in which phase, and what must become of the episode.

Outcomes as in ``table``; where a phase is tried again, ``always / once``.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from deepgym.exceptions import SandboxError
from deepgym.providers.local.zygotes import RefusedError

from . import episode_faults as broken
from . import faults
from .scene import FaultContext
from .table import CELLS as RUNS

__all__ = ["CELLS", "JUDGING", "STAGES", "EpisodeCell", "of"]

#: Phase: the stage in which its faults are armed.
STAGES = {
    "opening": "reset",
    "files": "reset",
    "set-up": "reset",
    "first step": "step 1",
    "step": "step 2",
    "between": "step 2",
    "copy": "score",
    "closing": "score",
    "judging": "score",
}


@dataclass(frozen=True)
class EpisodeCell:
    """One way of breaking one part in one phase. ``point``: see ``episode_seams``; none: at once."""

    part: str
    phase: str
    point: str
    fault: FaultContext
    always: str
    once: str
    skip: int = 0
    """So many passings of the point are spared."""
    patience: float = 0.0
    """Seconds for which the supervisor waits for the sandbox, if it isn't its own."""
    far: bool = False
    """Ends the neighbours too."""
    grouped: bool = False
    """Can be had only where control groups can be made."""
    strikes: tuple[int, int] = (2, 8)
    """Episodes with ``always`` and with ``once``."""

    @property
    def name(self) -> str:
        return f"{self.part} x {self.phase}"

    @property
    def stage(self) -> str:
        return STAGES[self.phase]


CELLS: list[EpisodeCell] = []


def _add(part: str, phase: str, point: str, fault: FaultContext, outcome: str, **more: object) -> None:
    always, _, once = outcome.partition("/")
    if not once:
        more.setdefault("strikes", (0, 10))
    CELLS.append(
        EpisodeCell(part, phase, point, fault, always.strip(), (once or always).strip(), **more)  # type: ignore[arg-type]
    )


_FEW, _FEW_ONCE = (1, 2), (0, 3)
_AGAIN = "none / true"

# The session's first process: SIGKILL, SIGSTOP.
_add("first process", "opening", "ready", broken.kill_first(), _AGAIN)
for _phase, _point in (("files", "write"), ("set-up", "script")):
    _add("first process", _phase, _point, broken.kill_first(), _AGAIN)
    _add("first process stopped", _phase, _point, broken.stop_first(), _AGAIN, patience=0.2, strikes=_FEW)
_add("first process", "files", "wait", broken.kill_first(), _AGAIN)
for _phase in ("first step", "step", "copy"):
    _add("first process", _phase, "send", broken.kill_first(), "zero")
    _add(
        "first process stopped", _phase, "send", broken.stop_first(), "zero", patience=0.2, strikes=_FEW_ONCE
    )
_add("first process", "step", "wait", broken.kill_first(), "zero")
_add("first process stopped", "step", "wait", broken.stop_first(), "zero", patience=0.2, strikes=_FEW_ONCE)
_add("first process", "copy", "reply", broken.kill_first(), "zero", skip=4)
_add("first process", "between", "", broken.kill_first(), "zero")
_add("first process", "closing", "end", broken.kill_first(), "true")

# The manager: SIGKILL, and every session with it.
_add("manager", "opening", "host", broken.kill_manager(), _AGAIN, far=True, strikes=_FEW)
_add("manager", "opening", "ready", broken.kill_manager(), _AGAIN, far=True, strikes=_FEW)
_add("manager", "files", "write", broken.kill_manager(), _AGAIN, far=True, strikes=_FEW)
_add("manager", "set-up", "wait", broken.kill_manager(), _AGAIN, far=True, strikes=_FEW)
for _phase, _point in (("first step", "act"), ("step", "wait"), ("between", ""), ("copy", "reply")):
    _add("manager", _phase, _point, broken.kill_manager(), "none", far=True, strikes=_FEW_ONCE)
_add("manager", "closing", "end", broken.kill_manager(), "true", far=True, strikes=_FEW_ONCE)

# Zygotes that can't be had.
_refused = faults.raising(
    lambda: RefusedError("clone: Resource temporarily unavailable", errno.EAGAIN),
    lambda: RefusedError("unshare: Operation not permitted", errno.EPERM),
    lambda: SandboxError("a sandbox zygote didn't start within 60 s"),
)
_add("zygote", "opening", "zygote", _refused, _AGAIN)
_add("thread", "opening", "thread", broken.no_thread(), _AGAIN)
_add("thread", "closing", "thread", broken.no_thread(), "true")

# Control groups.
_add("cgroup", "opening", "group", broken.ungrouped("none"), "true")
_add("cgroup", "opening", "host", broken.ungrouped("procs"), _AGAIN, grouped=True)
_add("cgroup", "opening", "group", faults.failing(errno.EIO), _AGAIN)
_add("cgroup", "closing", "end", broken.ungrouped("removal"), "true", grouped=True)

# What our own process lacks.
for _number, _name in ((errno.ENFILE, "ENFILE"), (errno.ENOSPC, "ENOSPC"), (errno.EAGAIN, "EAGAIN")):
    for _point in ("host", "plan", "ready"):
        _add(_name, "opening", _point, faults.failing(_number), _AGAIN, strikes=(2, 2))
_add("EMFILE", "opening", "host", faults.drop_descriptors, _AGAIN)
_add("EMFILE", "opening", "zygote", faults.drop_descriptors, _AGAIN)
# Without a control group the rlimits bound a session, and its result says so.
_add("EMFILE", "opening", "group", faults.drop_descriptors, "true")
_add("EMFILE", "files", "turn", broken.no_descriptors(), _AGAIN)
_add("EMFILE", "set-up", "turn", broken.no_descriptors(), _AGAIN, skip=1)
for _phase in ("first step", "step", "copy"):
    _add("EMFILE", _phase, "turn", broken.no_descriptors(), "none")
    _add("slots' directory", _phase, "turn", broken.no_slots(), "none")
# What goes on needs no further descriptor.
_add("EMFILE", "step", "act", faults.drop_descriptors, "true")
_add("EMFILE", "copy", "copy", faults.drop_descriptors, "true")
_add("slots' directory", "files", "turn", broken.no_slots(), _AGAIN)
_add("EMFILE", "closing", "end", faults.drop_descriptors, "true")

# Our own code.
for _part, _fault in (("supervisor", faults.bugs()), ("supervisor's memory", faults.no_memory())):
    for _phase, _point in (
        ("opening", "host"),
        ("opening", "ready"),
        ("files", "send"),
        ("set-up", "script"),
    ):
        _add(_part, _phase, _point, _fault, _AGAIN)
    for _phase, _point in (
        ("first step", "turn"),
        ("step", "send"),
        ("step", "wait"),
        ("step", "reply"),
        ("step", "view"),
        ("copy", "turn"),
        ("copy", "send"),
        ("copy", "wait"),
        ("copy", "reply"),
        ("judging", "judge"),
    ):
        _add(_part, _phase, _point, _fault, "none", strikes=(0, 5))
    _add(_part, "closing", "end", _fault, "true")
    _add(_part, "closing", "gone", broken.afterwards(_fault), "true")

# Our event loop stands still for longer than an answer may take, which was there in time.
_add("stalled loop", "step", "wait", broken.stall(0.4), "true", patience=0.2, strikes=_FEW_ONCE)
_add("stalled loop", "copy", "wait", broken.stall(0.4), "true", patience=0.2, strikes=_FEW_ONCE)

# The provider is closed by somebody else.
_add("provider", "between", "", broken.close_provider(), "none", far=True, strikes=_FEW_ONCE)

#: Faults of single runs that can strike the run that judges an episode. There is no watch on its work, and no
#: file system that an answer is written to.
JUDGING = [
    (cell, task)
    for cell in RUNS
    for task in cell.tasks
    if task in ("program", "lingering", "reading", "hungry", "hungry early")
    and cell.part != "watch"
    and cell.fault is not faults.full
]


def of(part: str, phase: str) -> list[EpisodeCell]:
    """The ways of breaking ``part`` in ``phase``."""
    return [cell for cell in CELLS if (cell.part, cell.phase) == (part, phase)]
