"""The numbers of a document, and what is said of runs without a verdict."""

from __future__ import annotations

import logging
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym_lmeval.graded import Graded
from deepgym_lmeval.metrics import Breakdown, metric_names, of_document, pass_at

RIGHT = Graded(score=1.0, passed=True)
HALF = Graded(score=0.5, passed=False)
WRONG = Graded(score=0.0, passed=False)
FAULT = Graded(score=0.0, passed=False, error_type="solution_timeout")
LOST = Graded(score=None, passed=False, error_type="sandbox_error")
GONE = Graded(score=None, passed=False, error_type="network_error")

runs = st.lists(st.sampled_from([RIGHT, HALF, WRONG, FAULT, LOST, GONE]), min_size=1, max_size=8)


def test_one_judged_run_is_its_own_mean() -> None:
    assert of_document([HALF]) == {
        "deepgym_verdict": 1.0,
        "deepgym_score": 0.5,
        "deepgym_pass": 0.0,
        "deepgym_judged": 1,
        "deepgym_no_verdict": {},
    }


def test_a_model_fault_is_judged_and_counts_as_0() -> None:
    found = of_document([FAULT, RIGHT])
    assert (found["deepgym_verdict"], found["deepgym_score"], found["deepgym_judged"]) == (1.0, 0.5, 2)
    assert found["deepgym_no_verdict"] == {}


def test_a_run_without_a_verdict_is_left_out_and_counted_by_its_cause() -> None:
    assert of_document([RIGHT, LOST, HALF, GONE, LOST]) == {
        "deepgym_verdict": 0.4,
        "deepgym_score": 0.75,
        "deepgym_pass": 0.5,
        "deepgym_judged": 2,
        "deepgym_no_verdict": {"sandbox_error": 2, "network_error": 1},
    }


def test_without_any_verdict_there_is_no_score() -> None:
    assert of_document([LOST], k=1) == {
        "deepgym_verdict": 0.0,
        "deepgym_judged": 0,
        "deepgym_no_verdict": {"sandbox_error": 1},
    }


def test_every_key_is_there_where_several_ranks_gather_them() -> None:
    found = of_document([LOST], k=2, every_key=True)
    assert list(found) == metric_names(2)
    assert [name for name, value in found.items() if value is None] == [
        "deepgym_score",
        "deepgym_pass",
        "deepgym_pass@2",
    ]


@given(runs, st.none() | st.integers(1, 8))
def test_keys_come_in_one_order_whatever_was_judged(graded: list[Graded], k: int | None) -> None:
    names = metric_names(k)
    found = of_document(graded, k)
    assert list(of_document(graded, k, every_key=True)) == names
    assert list(found) == [name for name in names if name in found]
    assert names[0] == "deepgym_verdict"


@given(runs, st.integers(1, 8))
def test_pass_at_k_is_the_mean_over_every_choice_of_k_judged_runs(graded: list[Graded], k: int) -> None:
    judged = [run.passed for run in graded if run.has_verdict]
    found = of_document(graded, k)
    if len(judged) < k:
        assert pass_at(k) not in found
    else:
        expected = fmean(any(chosen) for chosen in combinations(judged, k))
        assert found[pass_at(k)] == pytest.approx(expected, abs=1e-12)


@given(runs)
def test_pass_at_1_is_the_share_that_passed(graded: list[Graded]) -> None:
    found = of_document(graded, 1)
    assert found.get(pass_at(1)) == pytest.approx(found.get("deepgym_pass"))


@given(runs)
def test_runs_are_judged_or_counted_by_cause_and_never_both(graded: list[Graded]) -> None:
    found = of_document(graded)
    assert found["deepgym_judged"] + sum(found["deepgym_no_verdict"].values()) == len(graded)
    assert found["deepgym_verdict"] == found["deepgym_judged"] / len(graded)
    assert ("deepgym_score" in found) == ("deepgym_pass" in found) == (found["deepgym_judged"] > 0)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_nothing_is_said_where_everything_was_judged(caplog: pytest.LogCaptureFixture) -> None:
    breakdown = Breakdown("task", 2)
    assert breakdown.found is None
    assert breakdown([{}, {}, {}]) == 0
    assert breakdown.found == {"runs": 6, "judged": 6, "no_verdict": {}}
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("none", "level"),
    [(1, logging.WARNING), (5, logging.WARNING), (6, logging.ERROR), (100, logging.ERROR)],
)
def test_below_95_percent_it_is_said_loudly(none: int, level: int, caplog: pytest.LogCaptureFixture) -> None:
    breakdown = Breakdown("task", 1)
    assert breakdown([{"timeout": 1}] * none + [{}] * (100 - none)) == none
    ((found, text),) = lines(caplog)
    assert found == level
    assert f"{none} of 100" in text or f"{100 - none} of 100" in text
    assert "timeout" in text
    assert ("ONLY" in text) == (level == logging.ERROR)


def test_the_loud_line_names_every_cause_the_most_frequent_first(caplog: pytest.LogCaptureFixture) -> None:
    breakdown = Breakdown("task", 3)
    assert breakdown([{"timeout": 1}, {"network_error": 2, "timeout": 1}, {"network_error": 1}]) == 5
    assert breakdown.found == {"runs": 9, "judged": 4, "no_verdict": {"network_error": 3, "timeout": 2}}
    assert list(breakdown.found["no_verdict"]) == ["network_error", "timeout"]
    ((_, text),) = lines(caplog)
    assert "task: ONLY 4 of 9 runs (44.4 %)" in text
    assert "3 network_error, 2 timeout" in text
    assert "deepgym lm-eval regrade" in text
