"""What is run while something breaks: environments, answers and what each answer is worth."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program

__all__ = ["TASKS", "WALL", "Answer", "answers"]

#: Far above what any run here needs, so that a slow machine is never one of the faults.
WALL = 20.0

_CASES = Cases(function="f", cases=(Case(args=(1,), expected=2), Case(args=(2,), expected=3)))
_SCORE = """
def right(f, given):
    try:
        return f(given) == given + 1
    except Exception as error:
        if not getattr(error, "from_solution", False):
            raise
        return False
"""
_VERIFY = """
def verify(solution):
    f = solution.function("f")
    return 0.5 * (f(1) == 2) + 0.5 * (f(2) == 3)
"""
_LINGERING = f"""{_SCORE}
import time
from deepgym_verify import report, solution
f = solution.function("f")
score = 0.5 * right(f, 1) + 0.5 * right(f, 2)
report(score, score == 1.0)
time.sleep(0.05)
raise SystemExit(0 if score == 1.0 else 1)
"""
#: Looks at the answer's text alone, so that only the watch can tell when it came into play.
_READING = """
def verify(solution):
    text = solution.source()
    return 1.0 if "return x + 1" in text else 0.5 if "return 2" in text else 0.0
"""
#: Takes memory page by page, before or after its first request.
_HUNGRY = f"""{_SCORE}
def eat():
    return [bytearray(1 << 20) for _ in range(96)]
def verify(solution):
    held = eat() if %d else None
    f = solution.function("f")
    score = 0.5 * right(f, 1)
    held = held or eat()
    return score + 0.5 * right(f, 2)
"""


def _environment(
    name: str, verify: Cases | Program, case_timeout: float | None = None, files: int = 0
) -> Environment:
    return Environment(
        name=f"faults/{name}",
        task="Write f(x), which returns x + 1.",
        verify=verify,
        limits=EnvironmentLimits(wall=WALL, case_timeout=case_timeout),
        files={"data.txt": "x" * files} if files else {},
    )


TASKS: dict[str, Environment] = {
    "cases": _environment("cases", _CASES),
    # Its head is too large for the plan, so the run's process waits for it on its channel, unmarked.
    "held": _environment("held", _CASES, files=5000),
    "one by one": _environment("one-by-one", _CASES, case_timeout=0.25),
    "program": _environment("program", Program(source=_VERIFY)),
    "lingering": _environment("lingering", Program(source=_LINGERING)),
    "reading": _environment("reading", Program(source=_READING)),
    "hungry": _environment("hungry", Program(source=_HUNGRY % 0)),
    "hungry early": _environment("hungry-early", Program(source=_HUNGRY % 1)),
}

_BODIES = {"good": ("x + 1", 1.0), "half": ("2", 0.5), "wrong": ("None", 0.0), "raises": ("1 // 0", 0.0)}
#: Its first case runs over its own time, so that a second process is set up while the run is in play.
_OVER = "    if x == 1:\n        __import__('time').sleep(30)\n"


@dataclass(frozen=True)
class Answer:
    """One answer's text, and its score where nothing breaks."""

    text: str
    score: float


def answers(
    count: int, rng: random.Random, waiting: Mapping[int, float] = MappingProxyType({}), over: bool = False
) -> list[Answer]:
    """``count`` answers, no two alike; those in ``waiting`` take so many seconds, or (``over``) too many for
    a case.
    """
    found = []
    for number in range(count):
        kind = rng.choice(list(_BODIES))
        value, score = _BODIES[kind]
        before = body = ""
        if waiting.get(number) and over:
            body, score = _OVER, 0.5 if kind == "good" else 0.0
        elif waiting.get(number):
            before = f"__import__('time').sleep({waiting[number]})\n"
        text = f"# {number} {rng.getrandbits(64):x}\n{before}def f(x):\n{body}    return {value}\n"
        found.append(Answer(text, score))
    return found
