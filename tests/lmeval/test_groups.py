"""Groups of suites: the mean of what could be judged, with a standard error that is right or absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment, load_suite
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_lmeval import task as task_module
from deepgym_lmeval.grading import Grader

from .answers import Answers, canonical, wrong
from .harness import VERSION, Run, arguments, command, evaluate, manager, written
from .server import loopback

pytestmark = pytest.mark.local_sandbox

SUITES = {"deepgym_easy": 8, "deepgym_medium": 10, "deepgym_hard": 5, "deepgym_humaneval": 164}
#: Only from here on lm-eval gives the mean over tasks the standard error that belongs to it.
AGGREGATES = VERSION >= (0, 4, 13)
METRICS = ("deepgym_verdict", "deepgym_score", "deepgym_pass")


def half(environment: Environment, chat: bool) -> str:
    """Right for the built-in environments of even length, wrong for others, HumanEval's included."""
    return (canonical if len(environment.name) % 2 == 0 else wrong)(environment, chat)


@pytest.fixture(scope="module")
def everything(known: Any) -> Run:
    with loopback(Answers(half, known)) as server:
        return evaluate(server, "deepgym")


def share(task: str) -> float:
    names = [env.name for env in load_suite(task.removeprefix("deepgym_"))]
    return sum(len(name) % 2 == 0 for name in names) / len(names)


def test_the_group_holds_every_suite_with_its_own_numbers(everything: Run) -> None:
    for task, count in SUITES.items():
        values = everything.values(task)
        assert (values["deepgym_judged"], values["deepgym_verdict"]) == (count, 1.0)
        assert values["deepgym_score"] == values["deepgym_pass"] == pytest.approx(share(task), abs=1e-12)
        assert 0 < values["deepgym_pass"] < 1


@pytest.mark.skipif(not AGGREGATES, reason="before 0.4.13 the standard error of such a mean is another's")
def test_the_groups_numbers_are_means_over_suites_with_the_standard_error_of_such_a_mean(
    everything: Run,
) -> None:
    values = everything.values("deepgym")
    assert set(values) == {*METRICS, *(f"{name}_stderr" for name in METRICS)}
    for name in METRICS:
        suites = [everything.values(task) for task in SUITES]
        assert values[name] == pytest.approx(sum(suite[name] for suite in suites) / 4)
        errors = [suite[f"{name}_stderr"] for suite in suites]
        assert values[f"{name}_stderr"] == pytest.approx(math.sqrt(sum(error**2 for error in errors)) / 4)


@pytest.mark.skipif(AGGREGATES, reason="from 0.4.13 on it has its own")
def test_the_group_has_no_numbers_where_their_standard_error_would_be_wrong(everything: Run) -> None:
    assert not [key for key in everything.everything["results"].get("deepgym", {}) if "deepgym_" in key]


class Afterwards(Grader):
    """Sees to it that an outage begins after the trial."""

    begun = False

    def smoke(self, environments: Any) -> None:
        self.begun = False
        super().smoke(environments)
        self.begun = True


@pytest.fixture
def strike(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[set[str]], None]]:
    """Lets every run of an answer to these environments lose its verdict, in tasks asked for by name too."""
    provider = FaultyProvider(LocalProvider(), Fault("provider", Phase.IN_PLAY))
    with DeepGym(provider=provider) as dg:
        grader = Afterwards(dg)
        monkeypatch.setattr(task_module, "shared_grader", lambda: grader)

        def strikes(names: set[str]) -> None:
            known = [env for suite in ("builtin", "humaneval") for env in load_suite(suite)]
            lost = {(env.reference or "").strip() for env in known if env.name in names}
            monkeypatch.setattr(provider, "strikes", lambda answer: grader.begun and answer.strip() in lost)

        yield strikes


def test_a_suite_without_any_judged_document_is_missing_in_the_groups_scores(
    known: Any, strike: Callable[[set[str]], None]
) -> None:
    from lm_eval.utils import make_table

    strike({env.name for env in load_suite("hard")})
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym", limit=8)
    assert run.values("deepgym_hard") == {
        "deepgym_verdict": 0.0,
        "deepgym_verdict_stderr": 0.0,
        "deepgym_judged": 0,
        "deepgym_judged_stderr": "N/A",
        "deepgym_no_verdict": 5,
        "deepgym_no_verdict_stderr": "N/A",
    }
    for column in ("results", "groups"):
        if column in run.everything:
            assert "deepgym" in make_table(run.everything, column)
    for task in ("deepgym_easy", "deepgym_medium", "deepgym_humaneval"):
        assert run.values(task)["deepgym_score"] == 1.0
    if AGGREGATES:
        values = run.values("deepgym")
        assert values["deepgym_verdict"] == pytest.approx(3 / 4)
        assert (values["deepgym_score"], values["deepgym_score_stderr"]) == (1.0, 0.0)


def test_a_suite_with_one_judged_document_leaves_the_group_without_a_standard_error(
    known: Any, strike: Callable[[set[str]], None]
) -> None:
    strike({env.name for env in load_suite("hard").environments[1:]})
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym", limit=5)
    hard_values = run.values("deepgym_hard")
    assert (hard_values["deepgym_score"], hard_values["deepgym_score_stderr"]) == (1.0, "N/A")
    assert hard_values["deepgym_verdict"] == pytest.approx(0.2)
    if AGGREGATES:
        values = run.values("deepgym")
        assert (values["deepgym_score"], values["deepgym_score_stderr"]) == (1.0, "N/A")
        assert values["deepgym_verdict"] == pytest.approx((3 + 0.2) / 4)


def test_a_pattern_finds_a_task_and_its_variant_with_repeats(known: Any) -> None:
    found = manager().match_tasks(["deepgym_two_sum*"])
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, *found)
    assert set(run.everything["samples"]) == {"deepgym_two_sum", "deepgym_two_sum_k10"}
    assert len(server.asked) == 11
    assert run.values("deepgym_two_sum")["deepgym_judged"] == 1
    assert run.values("deepgym_two_sum_k10")["deepgym_judged"] == 10


def test_suites_and_environments_are_asked_for_together(known: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        run = evaluate(server, "deepgym_hard", "deepgym_two_sum", "deepgym_easy")
    assert {task: run.values(task)["deepgym_judged"] for task in run.everything["samples"]} == {
        "deepgym_hard": 5,
        "deepgym_two_sum": 1,
        "deepgym_easy": 8,
    }


def test_the_command_prints_the_group_and_writes_it(known: Any, tmp_path: Any) -> None:
    with loopback(Answers(canonical, known)) as server:
        words = arguments(server, "deepgym", "--limit", "2", "--log_samples", "--output_path", str(tmp_path))
        run = command(*words)
    assert run.returncode == 0, run.stderr
    files = written(tmp_path)
    assert {task: len(samples) for task, samples in files.everything["samples"].items()} == dict.fromkeys(
        SUITES, 2
    )
    for task in SUITES:
        assert files.values(task)["deepgym_score"] == 1.0
    if AGGREGATES:
        assert files.values("deepgym")["deepgym_score"] == 1.0
        assert files.values("deepgym")["deepgym_score_stderr"] == 0.0
    assert "deepgym_humaneval" in run.stdout
