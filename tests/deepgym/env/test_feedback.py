"""What a policy is shown of its run, and what it is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import Case, Cases, DeepGym, DeepGymEnv, Environment, Program
from deepgym.env.feedback import feedback
from deepgym.environments import EnvironmentLimits
from deepgym.models import MODEL_FAULT_ERRORS, CaseResult, RunResult

#: Stands in what each verifier below expects, and nowhere else.
SECRET = "xyzzy5791"
NUMBER = 57_915_791

LIMITS = EnvironmentLimits(wall=1.0, output=20_000)


def cases(*rows: Case, **verify: Any) -> Environment:
    return Environment(name="t", task="Do it.", verify=Cases(cases=rows, **verify), limits=LIMITS)


def drawn(source: str, function: str | None = "f") -> Environment:
    return Environment(name="t", task="Do it.", verify=Cases(function=function, draw=source), limits=LIMITS)


def program(source: str, **verify: Any) -> Environment:
    return Environment(
        name="t", task="Do it.", verify=Program(source=source, **verify), limits=LIMITS, loopback=False
    )


DRAW = f"""
import sys
def draw(rng):
    print({SECRET!r}, {NUMBER}); print({SECRET!r}, file=sys.stderr)
    return [{{"args": [n], "expected": "{SECRET}"}} for n in range(3)]
"""
STDIN = f"def draw(rng):\n    return [{{'stdin': '1', 'stdout': '{SECRET}'}} for n in range(3)]"
REPORTS = f"""
import sys
from deepgym_verify import solution, report
print({SECRET!r}, file=sys.stderr)
try:
    got = solution.function("f")(1)
except Exception as error:
    got = None
case = {{"name": "f(1) == {SECRET}", "passed": got == {SECRET!r}, "message": "expected {SECRET}"}}
report(
    0.0,
    cases=[case, {{"name": "none", "passed": True}}],
    metrics={{"{SECRET}": 1.0}},
    reward_components={{"{SECRET}": -1.0}},
    details={{"{SECRET}": "{SECRET}"}},
)
"""
EASY = f"""
import json, sys
from deepgym_verify import solution
print({SECRET!r}, file=sys.stderr)
ran = solution.run(stdin="1")
print(json.dumps({{"score": 0.0, "details": {{"expected": {SECRET!r}}}, "error": {SECRET!r}}}))
"""
ASSERTS = f"def verify(solution):\n    assert solution.function('f')(1) == {SECRET!r}, 'wanted {SECRET}'"
CRASHES = f"def verify(solution):\n    solution.function('f')(1)\n    raise KeyError({SECRET!r})"
CHOOSES = (
    "from deepgym_verify import solution\n"
    "def verify(solution):\n"
    "    solution.source()\n"
    f"    return {{'error_type': 'ERROR', 'error': {SECRET!r}, 'details': {{'a': {SECRET!r}}}}}"
)
READS = (
    "def verify(solution):\n"
    "    wanted = open('wanted.txt').read()\n"
    "    got = solution.function('f')(1)\n"
    "    assert got == wanted, 'got %r, wanted %r' % (got, wanted)\n"
)
GIVES_UP = (
    "import sys\n"
    "def verify(solution):\n"
    "    solution.source()\n"
    f"    print({SECRET!r}, file=sys.stderr)\n"
    "    sys.exit(2)\n"
)

ENVIRONMENTS = {
    "function": cases(*(Case(args=(n,), expected=[SECRET, NUMBER, n]) for n in range(3)), function="f"),
    "numbers": cases(Case(args=(1,), expected=float(NUMBER)), function="f", compare="float"),
    "unordered": cases(Case(args=(1,), expected=[SECRET, SECRET]), function="f", compare="unordered"),
    "names": cases(Case(args=(1,), expected=SECRET, name=f"f(1) == {SECRET}"), function="f"),
    "class": cases(Case(calls=(("F", 1), ("get",), ("get",)), expected=[None, SECRET, SECRET]), function="F"),
    "printed": cases(Case(stdin="1", stdout=f"{SECRET} {NUMBER}"), Case(stdin="2", stdout=SECRET)),
    "printed numbers": cases(Case(stdin="1", stdout=f"{NUMBER}.5"), compare="float"),
    "timed": Environment(
        name="t",
        task="Do it.",
        verify=Cases(function="f", cases=(Case(args=(1,), expected=SECRET),) * 2),
        limits=EnvironmentLimits(wall=1.5, case_timeout=0.5),
    ),
    "drawn": drawn(DRAW),
    "drawn printed": drawn(STDIN, None),
    "reports": program(REPORTS),
    "easy form": program(EASY),
    "asserts": program(ASSERTS),
    "crashes": program(CRASHES),
    "chooses": program(CHOOSES.replace("ERROR", "solution_error")),
    "chooses an error of its own": program(CHOOSES.replace("ERROR", "odd")),
    "reads a file": program(READS, files={"wanted.txt": SECRET}),
    "gives up": program(GIVES_UP),
}
ANSWERS = {
    "wrong": "print('hello')\ndef f(n):\n    return 0\nclass F:\n    def __init__(self, n): pass\n    def get(self): return 0",
    "nothing": "",
    "broken": "def f(:",
    "raises": "raise ValueError('no')",
    "raises late": "def f(n):\n    raise ValueError('no', n)",
    "dies": "import os\ndef f(n):\n    os._exit(3)",
    "loops": "def f(n):\n    while True: pass\nf(1)",
    "floods": "def f(n):\n    return 'a' * 3_000_000\nprint('b' * 100_000)",
    "odd": "class A: pass\ndef f(n):\n    return A()\nF = f",
}


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym() as client:
        yield client


@pytest.mark.local_sandbox
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_nothing_that_a_step_shows_tells_what_was_expected(dg: DeepGym, name: str) -> None:
    env = DeepGymEnv(ENVIRONMENTS[name], dg, max_turns=2, render_mode="ansi", extract=False)
    shown = [*env.reset(), env.render()]
    steps = env.step_batch(list(ANSWERS.values()))
    shown += steps
    shown += [env.step(ANSWERS["wrong"]), env.render()]
    for step in steps:
        shown += [step[4].items(), json.dumps(step[4]), str(step[4])]
        assert step[1] == 0.0
        assert len(step[0]) < 12_000
    text = repr(shown)
    assert SECRET not in text
    assert str(NUMBER) not in text


@pytest.mark.local_sandbox
@pytest.mark.parametrize("name", ["asserts", "reports"])
def test_the_result_in_full_is_for_the_trainer_and_has_what_the_verifier_said(dg: DeepGym, name: str) -> None:
    env = DeepGymEnv(ENVIRONMENTS[name], dg)
    env.reset()
    result = env.step(ANSWERS["wrong"])[4].result
    assert SECRET in result.model_dump_json()


@pytest.mark.local_sandbox
def test_a_traceback_is_shown_where_no_verifier_could_have_written_it(dg: DeepGym) -> None:
    ((text, *_),) = DeepGymEnv(ENVIRONMENTS["function"], dg).step_batch([ANSWERS["raises"]])
    assert "ValueError: no" in text.partition("--- stderr")[2]
    ((text, *_),) = DeepGymEnv(ENVIRONMENTS["asserts"], dg).step_batch([ANSWERS["wrong"]])
    assert text == "Failed with score 0.00.\n--- stdout\nhello"


@pytest.mark.local_sandbox
def test_a_program_is_told_how_it_ended(dg: DeepGym) -> None:
    ((text, *_),) = DeepGymEnv(ENVIRONMENTS["printed"], dg).step_batch([ANSWERS["raises"]])
    assert text == "Failed with score 0.00: 0 of 2 cases passed.\ncases 1 to 2: ended with status 1"


ENV = ENVIRONMENTS["function"]


def of_cases(*outcomes: str, **fields: Any) -> RunResult:
    made = tuple(
        CaseResult(passed=outcome == "passed", score=float(outcome == "passed"), outcome=outcome)  # type: ignore[arg-type]
        for outcome in outcomes
    )
    return RunResult(**{"score": 0.0, "cases": made, **fields})


def test_cases_that_failed_alike_stand_in_one_line() -> None:
    outcomes = ["wrong", "passed", "wrong", "wrong", "wrong", "timeout", "unanswered"]
    assert feedback(ENV, of_cases(*outcomes)).splitlines() == [
        "Failed with score 0.00: 1 of 7 cases passed.",
        "cases 1, 3 to 5: wrong",
        "case 6: timeout",
        "case 7: unanswered",
    ]


def test_feedback_is_short_however_many_cases_fail_and_however_much_was_written() -> None:
    result = of_cases(*["wrong", "passed"] * 2500, output="x" * 100_000, stderr="y\n" * 50_000)
    text = feedback(ENV, result)
    assert len(text) < 10_000
    assert text.splitlines()[1].endswith("39, ...: wrong")
    assert text.count("[...]") == 2
    raised = [
        CaseResult(passed=False, score=0.0, outcome="raised", message=f"E: {n} " + "m" * 5000)
        for n in range(5000)
    ]
    text = feedback(ENV, RunResult(score=0.0, cases=tuple(raised)))
    assert len(text) < 10_000
    assert text.endswith("and 4980 more kinds of failure")


@pytest.mark.parametrize("error_type", sorted(MODEL_FAULT_ERRORS))
def test_every_model_fault_has_its_words(error_type: Any) -> None:
    text = feedback(ENV, RunResult(score=0.0, error_type=error_type, error=SECRET))
    assert text.startswith("Failed with score 0.00: the ")
    assert SECRET not in text
