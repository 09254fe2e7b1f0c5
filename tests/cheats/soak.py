"""Honest and hostile runs mixed, on all cores: every result right, and nothing left behind.

    python tests/cheats/soak.py --runs 5000

prints what ran, what was wrong, and what the machine held before, meanwhile and after; its status is 1 if
anything was wrong or left.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import glob
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # as a program: the other modules here are found by their package's name
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    __package__ = "tests.cheats"

from deepgym import DeepGym, RunResult
from deepgym.environments import Cases, Environment

from .catalogue import cheats
from .environments import targets

__all__ = ["Census", "Report", "soak"]

_BATCH = 500
_SLOW_SHARE = 0.05
_MOST = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36
_SHORT = {"wall": 0.4, "cpu": 0.4, "memory": 96 << 20, "disk": 16 << 20}


@dataclass(frozen=True)
class Census:
    """How many things there are that runs could leave behind."""

    processes: int
    """Descendants of this process, dead ones that nobody waited for included."""
    mounts: int
    """Of this process and of all its descendants that can be looked into."""
    directories: int
    """And files: temporary ones of this process, and places of runs that no sandbox uses any more."""
    cgroups: int
    descriptors: int

    @classmethod
    def take(cls) -> Census:
        """Count."""
        family = list(_descendants(os.getpid()))
        temporary = [*_below(tempfile.gettempdir()), *_abandoned()]
        return cls(
            processes=len(family),
            mounts=sum(map(_mounts, [os.getpid(), *family])),
            directories=len(temporary),
            cgroups=len(glob.glob(f"/sys/fs/cgroup/**/deepgym-{os.getpid()}-*", recursive=True)),
            descriptors=len(os.listdir("/proc/self/fd")),
        )


@dataclass
class Report:
    """What a soak came to."""

    runs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Runs by what they were: ``honest``, ``wrong``, ``hostile``."""
    wrong: list[str] = field(default_factory=list)
    """Results that aren't what they must be."""
    ends: Counter[str] = field(default_factory=Counter)
    """Hostile runs by their error type."""
    cheats: int = 0
    seconds: float = 0.0
    censuses: dict[str, Census] = field(default_factory=dict)

    @property
    def leaks(self) -> list[str]:
        """What there is more of than there was; both with the client open, and once it is closed."""
        found = []
        for first, last in (("warm", "worked"), ("before", "after")):
            old, new = asdict(self.censuses[first]), asdict(self.censuses[last])
            found += [
                f"{name}: {old[name]} {first}, {new[name]} {last}" for name in old if new[name] > old[name]
            ]
        return found

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        ends = ", ".join(f"{count} {end}" for end, count in self.ends.most_common())
        lines = [
            f"{self.runs} runs in {self.seconds:.0f} s ({self.runs / self.seconds:.1f} a second): {kinds}",
            f"{self.cheats} cheats; hostile runs ended as: {ends}",
            f"{len(self.wrong)} wrong results, {len(self.leaks)} leaks",
        ]
        for name, census in self.censuses.items():
            counts = " ".join(f"{key} {value}" for key, value in asdict(census).items())
            lines.append(f"  {name:<7} {counts}")
        return "\n".join([*lines, *self.wrong[:20], *self.leaks])


@dataclass(frozen=True)
class _Item:
    kind: str
    name: str
    environment: Environment
    answer: str


def soak(runs: int, *, slots: int | None = None, seed: int = 0, **options: Any) -> Report:
    """Run ``runs`` answers, honest and hostile by turns, in one client.

    Never raises for what a run came to: that stands in the report. A provider that fails as a whole raises
    what ``run_batch`` raises.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError("orphans can't be seen")
    slots = slots or len(os.sched_getaffinity(0))
    report, draw = Report(), random.Random(seed)
    honest, wrong, quick, slow = _honest(), _wrong(), *_hostile()
    report.cheats = len({item.name for item in (*quick, *slow)})
    report.censuses["before"] = Census.take()
    began = time.monotonic()
    with DeepGym(slots=slots, **options) as client:
        # Both kinds of environment on every slot, so that all that is kept warm is there.
        warm = honest * (2 * slots)
        _judge(report, warm, client)
        report.censuses["warm"] = _settled(Census(0, 0, 0, 0, 0))
        while report.runs < runs:
            order = _mixed(draw, min(_BATCH, runs - report.runs), honest, wrong, quick, slow)
            _judge(report, order, client)
        _judge(report, warm, client)
        report.censuses["worked"] = _settled(report.censuses["warm"])
    report.seconds = time.monotonic() - began
    report.censuses["after"] = _settled(report.censuses["before"])
    return report


def _settled(wanted: Census) -> Census:
    """The census once the kernel has let go of what is dying, or what it is after a while."""
    for _ in range(40):
        found = Census.take()
        if all(
            have <= want for have, want in zip(asdict(found).values(), asdict(wanted).values(), strict=True)
        ):
            break
        time.sleep(0.05)
    return found


def _mixed(
    draw: random.Random,
    count: int,
    honest: list[_Item],
    wrong: list[_Item],
    quick: list[_Item],
    slow: list[_Item],
) -> list[_Item]:
    order = []
    for number in range(count):
        if number % 2 == 0:
            order.append(draw.choice(honest))
        elif draw.random() < 0.1:
            order.append(draw.choice(wrong))
        else:
            order.append(draw.choice(slow if slow and draw.random() < _SLOW_SHARE else quick))
    return order


def _honest() -> list[_Item]:
    found = []
    for shape in ("function", "program"):
        for target in targets(shape, slow=False):
            found.append(_Item("honest", "honest", target.honest, target.honest.reference or ""))
    return found


def _wrong() -> list[_Item]:
    return [
        _Item("wrong", "wrong", item.environment, answer)
        for item in _honest()
        for answer in (
            "",
            "raise ValueError",
            f"def {item.environment.entry_point or 'f'}(*a): return None\n",
        )
    ]


def _hostile() -> tuple[list[_Item], list[_Item]]:
    """Every answer of every cheat, against short limits: those that end by themselves, and the slow ones."""
    quick, slow = [], []
    for cheat in cheats():
        for number, target in enumerate(targets(cheat.shape, slow=True)):
            environment = _short(target.honest, case_timeout=0.2 if number == 0 else None)
            for answer in cheat.answers(target.entry):
                (slow if cheat.slow else quick).append(_Item("hostile", cheat.name, environment, answer))
    return quick, slow


def _short(environment: Environment, case_timeout: float | None) -> Environment:
    limits = {**_SHORT, "case_timeout": case_timeout if isinstance(environment.verify, Cases) else None}
    return environment.model_copy(update={"limits": environment.limits.model_copy(update=limits)})


def _judge(report: Report, items: list[_Item], client: DeepGym) -> None:
    batch = client.run_batch([item.environment for item in items], [item.answer for item in items])
    for item, result in zip(items, batch.results, strict=True):
        report.runs += 1
        report.kinds[item.kind] += 1
        if item.kind == "hostile":
            report.ends[result.error_type or "score 0"] += 1
        fault = _fault(item, result)
        if fault:
            report.wrong.append(
                f"{item.name} on {result.env_name}: {fault} ({result.error_type}: {result.error}; "
                f"score {result.score}; {result.stderr[-200:]!r})"
            )


def _fault(item: _Item, result: RunResult) -> str | None:
    """What is wrong with a result, or ``None``."""
    text = result.model_dump_json()
    if len(text) > _MOST or RunResult.model_validate_json(text) != result:
        return f"not as its JSON of {len(text)} characters"
    if not result.has_verdict:
        return "no verdict"
    wanted = 1.0 if item.kind == "honest" else 0.0
    return None if result.score == wanted and result.passed == (wanted == 1.0) else "the wrong score"


def _descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        found = [int(child) for file in children for child in file.read_text().split()]
    except OSError:
        return
    for child in found:
        yield child
        yield from _descendants(child)


def _mounts(pid: int) -> int:
    try:
        return len(Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines())
    except OSError:
        return 0


def _below(folder: str) -> list[str]:
    return [
        os.path.join(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files)
    ]


def _abandoned() -> list[str]:
    """Places of runs (of the tiers that need some) whose lock nobody holds."""
    found = []
    for lock in glob.glob("/tmp/deepgym-boxes-*/lock"):
        with contextlib.suppress(OSError), open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(lock)
    return found


def _own_places(folder: str) -> None:
    """Slots and temporary files of this program alone."""
    import deepgym.providers.local.slots as slots

    os.mkdir(f"{folder}/slots")
    os.mkdir(f"{folder}/temporary")
    slots._directory = lambda: f"{folder}/slots"
    tempfile.tempdir = f"{folder}/temporary"


def main() -> int:
    """The program; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--slots", type=int, default=None, help="default: all cores")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isolation", default="auto", help="the sandbox's tier; default: the host's best")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _own_places(folder)
        tier = arguments.isolation
        report = soak(arguments.runs, slots=arguments.slots, seed=arguments.seed, isolation=tier)
        tempfile.tempdir = None
    print(report)
    return 1 if report.wrong or report.leaks else 0


if __name__ == "__main__":
    sys.exit(main())
