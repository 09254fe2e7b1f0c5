"""A judge in this process, for trusted code only: the references, and answers that the tests write."""

from __future__ import annotations

import copy
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from deepgym.environments import Case, Cases, Environment, Program
from deepgym.sandboxed.values import Rule, matches, pack

Judge = Callable[..., float]


class SolutionDied(Exception):
    pass


class PlainSolution:
    """What a verifier program sees, with the answer's names in this process."""

    def __init__(self, code: str) -> None:
        self.names: dict[str, Any] = {"__name__": "solution"}
        exec(compile(code, "solution.py", "exec"), self.names)

    def function(self, name: str) -> Callable[..., Any]:
        def proxy(*args: Any, **kwargs: Any) -> Any:
            if name not in self.names:
                raise NameError(name)
            return self.names[name](*copy.deepcopy(args), **copy.deepcopy(kwargs))

        return proxy


@contextmanager
def _helper(seed: int) -> Iterator[None]:
    module: Any = types.ModuleType("deepgym_verify")
    module.seed, module.rng, module.SolutionDied = seed, random.Random(seed), SolutionDied
    sys.modules["deepgym_verify"] = module
    try:
        yield
    finally:
        del sys.modules["deepgym_verify"]


@cache
def drawn(environment: Environment, seed: int | None = None) -> tuple[Case, ...]:
    verify = environment.verify
    assert isinstance(verify, Cases)
    if verify.draw is None:
        return verify.cases
    names: dict[str, Any] = {}
    exec(verify.draw, names)
    return verify.with_drawn(names["draw"](random.Random(environment.seed if seed is None else seed)))


def _value(case: Case, target: Any) -> Any:
    if case.calls is None:
        return target(*copy.deepcopy(case.args), **copy.deepcopy(case.kwargs))
    subject = target(*case.calls[0][1:])
    return [None, *(getattr(subject, name)(*copy.deepcopy(rest)) for name, *rest in case.calls[1:])]


def score_cases(environment: Environment, target: Any, seed: int | None = None) -> float:
    """Share of the cases that ``target``, a function or class, passes."""
    verify = environment.verify
    assert isinstance(verify, Cases)
    rule = Rule(verify.compare, verify.rel_tol, verify.abs_tol, verify.allow_nonfinite)
    cases, passed = drawn(environment, seed), 0.0
    for case in cases:
        try:
            value = pack(_value(case, target))
        except Exception:  # noqa: BLE001 - whatever the answer raises fails its case
            continue
        passed += case.weight * matches(value, pack(case.expected), rule)
    return passed / sum(case.weight for case in cases)


def score_program(environment: Environment, answer: str, seed: int = 0) -> Any:
    """What the environment's ``verify(solution)`` returns for the completed answer."""
    assert isinstance(environment.verify, Program)
    with _helper(seed):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(environment.verify.source, "verifier.py", "exec"), names)
        return names["verify"](PlainSolution(environment.complete(answer)))


@pytest.fixture(scope="session")
def cases_of() -> Callable[..., tuple[Case, ...]]:
    return drawn


@pytest.fixture(scope="session")
def judge_cases() -> Judge:
    return score_cases


@pytest.fixture(scope="session")
def judge_program() -> Callable[..., Any]:
    return score_program
