"""What agents do while something breaks, and what each episode is worth."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, ToolCall

from .tasks import TASKS, WALL

__all__ = ["ENV", "WORK", "Play", "plays"]

_VERIFY = """
def verify(work):
    told = work.exists("answer.txt") and work.text("answer.txt").strip() == "6"
    right = work.exists("sums.py") and "return sum(numbers)" in work.text("sums.py")
    return 0.5 * told + 0.5 * right
"""
_LIMITS = EpisodeLimits(step=20.0, setup=20.0, verify=WALL, memory=256 << 20, processes=48, disk=16 << 20)

ENV = MultiTurnEnvironment(
    name="faults/episode",
    task="Write the sum of data.txt into answer.txt, and total(numbers) into sums.py.",
    verify=Program(source=_VERIFY),
    files={"data.txt": "1 2 3\n"},
    setup='mkdir -p out && echo "$DEEPGYM_SEED" > out/seed',
    limits=_LIMITS,
)


def _worked(source: str) -> str:
    """A program that asks an answer, as one that asks the module ``answer`` of an agent's work."""
    return (
        source.replace("verify(solution)", "verify(work)")
        .replace("report, solution", "report, work")
        .replace('solution.function("f")', 'work.function("answer", "f")')
        .replace("solution.source()", 'work.text("answer.py")')
    )


#: The tasks of single runs, of an agent that left its answer as ``answer.py``.
WORK: dict[str, MultiTurnEnvironment] = {
    name: MultiTurnEnvironment(
        name=f"faults/work-{name.replace(' ', '-')}",
        task=TASKS[name].task,
        verify=Program(source=_worked(TASKS[name].verify.source)),
        limits=_LIMITS,
    )
    for name in ("program", "lingering", "reading", "hungry", "hungry early")
}


@dataclass(frozen=True)
class Play:
    """What an agent does, step by step, and what that is worth where nothing breaks."""

    steps: tuple[ToolCall, ...]
    score: float
    env: MultiTurnEnvironment = ENV

    def named(self, env: MultiTurnEnvironment) -> Play:
        return replace(self, env=env)


def _write(path: str, content: str) -> ToolCall:
    return ToolCall(name="write_file", arguments={"path": path, "content": content})


def _bash(command: str) -> ToolCall:
    return ToolCall(name="bash", arguments={"command": command})


#: Long enough for a strike in the middle of it.
_TELL = _bash(
    "total=0; for each in $(cat data.txt); do total=$((total + each)); done; sleep 0.03; echo $total > answer.txt"
)
_GUESS = _bash("sleep 0.03; echo 7 > answer.txt")
_SUMS = _write("sums.py", "def total(numbers):\n    return sum(numbers)\n")
_WRONG = _write("sums.py", "def total(numbers):\n    return None\n")
_RAISES = _write("sums.py", "def total(numbers):\n    return 1 // 0\n")
_MORE = _bash("for each in 1 2 3 4 5 6; do head -c 200000 /dev/zero > zeros$each; done")

_KINDS = (
    ((_SUMS, _TELL), 1.0),
    ((_SUMS, _GUESS), 0.5),
    ((_WRONG, _TELL), 0.5),
    ((_RAISES, _GUESS), 0.0),
)


def plays(count: int, rng: random.Random, large: bool = False) -> list[Play]:
    """``count`` plays; the first is right. ``large``: they leave more than a channel holds at once."""
    chosen = [_KINDS[0], *(rng.choice(_KINDS) for _ in range(count - 1))]
    return [Play((*steps, _MORE) if large else steps, score) for steps, score in chosen]


def answering(text: str, score: float, env: MultiTurnEnvironment) -> Play:
    """An agent that leaves ``text`` as its answer."""
    return Play((_write("answer.py", text),), score, env)
