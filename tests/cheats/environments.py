"""What cheats are run against: declared cases, verifier programs, stdin and stdout, and HumanEval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from deepgym import load_environment
from deepgym.environments import Case, Cases, Environment, Program, humaneval

__all__ = ["Target", "targets"]

_PATIENT, _BRISK, _SHORT = 20.0, 5.0, 1.0
_HUMANEVAL = (2, 10, 31, 53, 107)


@dataclass(frozen=True)
class Target:
    """An environment, its honest answer, and the same environment with a cheat's limits."""

    honest: Environment
    brisk: Environment
    short: Environment
    entry: str

    @classmethod
    def of(cls, environment: Environment, entry: str = "") -> Target:
        """The environment under three wall limits."""
        honest, brisk, short = (
            environment.model_copy(
                update={"limits": environment.limits.model_copy(update={"wall": wall, "cpu": wall})}
            )
            for wall in (_PATIENT, _BRISK, _SHORT)
        )
        return cls(honest, brisk, short, entry)

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.honest.name


_DIGITS = Environment(
    name="cheats/digits",
    task="Write `digits(n)`: the sum of the squares of the decimal digits of n, plus 3.",
    verify=Cases(
        function="digits",
        cases=(Case(args=(48,), expected=83),),
        draw=(
            "def draw(rng):\n"
            "    numbers = [rng.randint(10, 10 ** 9) for _ in range(8)]\n"
            "    return [{'args': [n], 'expected': sum(int(c) ** 2 for c in str(n)) + 3} for n in numbers]\n"
        ),
    ),
    reference="def digits(n):\n    return sum(int(c) ** 2 for c in str(n)) + 3\n",
)
_PAIRS = Environment(
    name="cheats/pairs",
    task="Write `pairs(values)`: a list of (value, count), by value.",
    verify=Program(
        source=(
            "from deepgym_verify import rng, solution\n"
            "def verify(solution):\n"
            "    pairs = solution.function('pairs')\n"
            "    for _ in range(6):\n"
            "        values = [rng.randint(0, 9) for _ in range(12)]\n"
            "        assert pairs(values) == [(v, values.count(v)) for v in sorted(set(values))]\n"
            "    return True\n"
        ),
        seeded=True,
    ),
    reference="def pairs(values):\n    return [(v, values.count(v)) for v in sorted(set(values))]\n",
)
_TEXT = Environment(
    name="cheats/title",
    task="Write `title(word, *, mark)`: the word in capitals between marks, as often as it has letters.",
    verify=Cases(
        function="title",
        cases=tuple(
            Case(
                args=(word,),
                kwargs={"mark": mark},
                expected={"text": (mark + word.upper() + mark) * len(word)},
            )
            for word, mark in (("ab", "*"), ("lemon", "-"), ("tea", "_"), ("w", "."))
        ),
    ),
    reference="def title(word, *, mark):\n    return {'text': (mark + word.upper() + mark) * len(word)}\n",
)
_SUMS = Environment(
    name="cheats/sums",
    task="Read a line of numbers; print their sum of squares.",
    verify=Cases(
        draw=(
            "def draw(rng):\n"
            "    rows = [[rng.randint(1, 10 ** 6) for _ in range(5)] for _ in range(5)]\n"
            "    return [{'stdin': ' '.join(map(str, row)) + '\\n', 'stdout': f'{sum(n * n for n in row)}\\n'}"
            " for row in rows]\n"
        ),
    ),
    reference="print(sum(int(n) ** 2 for n in input().split()))\n",
)
_TURNED = Environment(
    name="cheats/turned",
    task="Print the input's lines turned round, last line first.",
    verify=Cases(
        cases=tuple(
            Case(stdin=text, stdout="".join(line[::-1] + "\n" for line in reversed(text.splitlines())))
            for text in ("ab\ncde\n", "one\ntwo\nthree\n", "x1\ny2\nz3\n")
        )
    ),
    reference="import sys\nfor line in reversed(sys.stdin.read().splitlines()):\n    print(line[::-1])\n",
)


@cache
def _all() -> tuple[tuple[Target, ...], tuple[Target, ...]]:
    tasks = {int(task.name.split("/")[1]): task for task in humaneval.environments()}
    functions = [Target.of(_DIGITS, "digits"), Target.of(_PAIRS, "pairs"), Target.of(_TEXT, "title")]
    functions += [Target.of(tasks[number], tasks[number].entry_point or "") for number in _HUMANEVAL]
    functions.append(Target.of(load_environment("to_roman"), "to_roman"))
    programs = [Target.of(_SUMS), Target.of(_TURNED), Target.of(load_environment("currency_report"))]
    python = _SUMS.model_copy(update={"name": "cheats/sums-started", "interpreter": ("python3",)})
    programs.append(Target.of(python))
    return tuple(functions), tuple(programs)


def targets(shape: str, slow: bool) -> tuple[Target, ...]:
    """What a cheat of this shape runs against: three environments and one of HumanEval if it is slow."""
    functions, programs = _all()
    if shape == "program":
        return programs[:3] if slow else programs
    return functions[:4] if slow else functions
