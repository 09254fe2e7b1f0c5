from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deepgym.environments import Cases, Environment, Program, list_environments, load_environment, load_suite

SEEDS = range(40)
ALL = list_environments()
CALLED = [
    name
    for name in ALL
    if isinstance(verify := load_environment(name).verify, Cases) and verify.function is not None
]


class _Lazy:
    """An object whose every method gives the same lazy answer, as a stub of a class does."""

    def __init__(self, give: Callable[..., Any]) -> None:
        self._give = give

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._give


LAZY: dict[str, Callable[..., Any]] = {
    "stub": lambda *args: None,
    "True": lambda *args: True,
    "False": lambda *args: False,
    "0": lambda *args: 0,
    "1": lambda *args: 1,
    "-1": lambda *args: -1,
    "empty list": lambda *args: [],
    "empty text": lambda *args: "",
    "empty dict": lambda *args: {},
    "empty set": lambda *args: set(),
    "echo of the first argument": lambda *args: args[0] if args else None,
    "echo of the last argument": lambda *args: args[-1] if args else None,
}


def named(environment: Environment) -> Any:
    assert environment.reference is not None
    assert isinstance(environment.verify, Cases)
    names: dict[str, Any] = {"__name__": "solution"}
    exec(environment.reference, names)
    return names[str(environment.verify.function)]


@pytest.mark.parametrize("name", ALL)
def test_a_built_in_environment_is_complete(name: str) -> None:
    environment = load_environment(name)
    assert environment.name == name
    assert environment.reference
    assert environment.difficulty
    assert environment.tags
    assert environment.verify.kind == "cases" or environment.verify.seeded
    if isinstance(environment.verify, Cases) and environment.verify.function:
        assert environment.verify.function + "(" in environment.task


def test_the_built_in_environments_are_varied() -> None:
    environments = list(load_suite("builtin"))
    tags = {tag for environment in environments for tag in environment.tags}
    assert {
        "arrays",
        "strings",
        "dynamic programming",
        "graphs",
        "parsing",
        "matrix",
        "intervals",
        "bits",
    } <= tags
    assert {"stdin and stdout", "floats", "classes", "files"} <= tags
    rules = {
        environment.verify.compare for environment in environments if isinstance(environment.verify, Cases)
    }
    assert rules == {"exact", "float", "unordered", "set"}
    assert any(isinstance(environment.verify, Program) for environment in environments)
    assert any(environment.files for environment in environments)


@pytest.mark.parametrize("name", CALLED)
def test_a_reference_passes_every_case_of_many_seeds(name: str, judge_cases: Callable[..., float]) -> None:
    environment = load_environment(name)
    target = named(environment)
    assert [judge_cases(environment, target, seed) for seed in SEEDS] == [1.0] * len(SEEDS)


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.parametrize("name", CALLED)
def test_a_lazy_answer_earns_at_most_a_tenth(name: str, lazy: str, judge_cases: Callable[..., float]) -> None:
    environment = load_environment(name)
    for seed in SEEDS:
        give = LAZY[lazy]
        subject = give
        if any(case for case in environment_cases(environment, seed) if case.get("calls")):

            def subject(*args: Any, give: Callable[..., Any] = give) -> Any:
                return _Lazy(give)

        assert judge_cases(environment, subject, seed) <= 0.1


def environment_cases(environment: Environment, seed: int) -> list[dict[str, Any]]:
    assert isinstance(environment.verify, Cases)
    assert environment.verify.draw is not None
    names: dict[str, Any] = {}
    exec(environment.verify.draw, names)
    rows: list[dict[str, Any]] = names["draw"](random.Random(seed))
    return rows


DRAWN = [name for name in ALL if isinstance(load_environment(name).verify, Cases)]


@pytest.mark.parametrize("name", DRAWN)
def test_no_constant_is_the_answer_to_more_than_a_tenth_of_the_cases(name: str, cases_of: Any) -> None:
    for seed in SEEDS:
        cases = cases_of(load_environment(name), seed)
        counts = Counter(repr(case.stdout if case.stdout is not None else case.expected) for case in cases)
        assert 20 <= len(cases) <= 25
        assert max(counts.values()) <= len(cases) / 10


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_always_draws_the_same_cases_and_another_draws_others(name: str) -> None:
    environment = load_environment(name)
    assert environment_cases(environment, 3) == environment_cases(environment, 3)
    assert environment_cases(environment, 3) != environment_cases(environment, 4)


def test_every_python_version_draws_the_same_cases(cases_of: Any) -> None:
    # Rewards of different hosts are comparable only if this holds; a changed draw changes the digest.
    digest = hashlib.sha256()
    for name in DRAWN:
        for seed in (0, 1, 2**63 - 1):
            for case in cases_of(load_environment(name), seed):
                digest.update(case.model_dump_json().encode())
    assert digest.hexdigest()[:16] == "8977eeea590ef51d"


@pytest.mark.parametrize("name", ALL)
def test_no_expected_value_stands_in_the_task_files_or_limits(name: str) -> None:
    environment = load_environment(name)
    shown = environment.model_dump(exclude={"verify", "reference", "task", "name", "tags"})
    assert "expected" not in repr(shown)
    assert "def " not in environment.task
