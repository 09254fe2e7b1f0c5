"""What a sample keeps of a run: written as one line of JSON, and read back from logs that may hold anything."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym.bounded import MAX_LINE
from deepgym.models import ERROR_TYPES, MODEL_FAULT_ERRORS, RunResult
from deepgym_lmeval.graded import Graded

NO_VERDICT = sorted(ERROR_TYPES - MODEL_FAULT_ERRORS)


def strict(text: str) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def test_a_judged_run_keeps_its_score_and_whose_answer_it_was_of() -> None:
    graded = Graded.of(RunResult(score=0.5, answer_sha256="ab", isolation="namespaces"))
    assert graded == Graded(score=0.5, passed=False, answer_sha256="ab", isolation="namespaces")
    assert graded.has_verdict


def test_a_run_that_passed_is_kept_as_passed() -> None:
    assert Graded.of(RunResult(score=1.0, passed=True)) == Graded(score=1.0, passed=True)


@pytest.mark.parametrize("error_type", NO_VERDICT)
def test_a_run_without_a_verdict_has_no_score(error_type: Any) -> None:
    graded = Graded.of(RunResult(score=0.75, passed=True, error_type=error_type, error="gone"))
    assert graded == Graded(score=None, passed=False, error_type=error_type, error="gone")
    assert not graded.has_verdict
    assert strict(str(graded))["score"] is None


@pytest.mark.parametrize("error_type", sorted(MODEL_FAULT_ERRORS))
def test_a_model_fault_is_a_judged_zero(error_type: Any) -> None:
    graded = Graded.of(RunResult(score=0.75, passed=True, error_type=error_type))
    assert (graded.score, graded.passed, graded.has_verdict) == (0.0, False, True)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1.5, -0.5, "1", True])
def test_a_number_that_is_no_score_leaves_no_verdict(score: Any) -> None:
    graded = Graded.of(RunResult(score=score, passed=True))
    assert (graded.score, graded.passed, graded.error_type) == (None, False, "invalid_score")


def test_exit_status_2_of_a_verifier_is_no_verdict() -> None:
    graded = Graded.of(RunResult(score=1.0, passed=True, exit_code=2))
    assert (graded.score, graded.passed, graded.error_type) == (None, False, "verifier_error")


def test_what_went_wrong_is_bounded_and_written_on_one_line() -> None:
    text = str(
        Graded.of(RunResult(score=0.0, error_type="sandbox_error", error="a\nb" * MAX_LINE + "\ud800"))
    )
    assert "\n" not in text
    assert len(json.loads(text)["error"]) <= MAX_LINE


@given(
    score=st.floats(0, 1),
    passed=st.booleans(),
    error_type=st.none() | st.sampled_from(sorted(ERROR_TYPES)),
    error=st.none() | st.text(),
    digest=st.text(max_size=64),
)
def test_every_run_is_read_back_as_it_was_written(
    score: float, passed: bool, error_type: Any, error: str | None, digest: str
) -> None:
    result = RunResult(score=score, passed=passed, error_type=error_type, error=error, answer_sha256=digest)
    graded = Graded.of(result)
    text = str(graded)
    strict(text)
    assert Graded.parse(text) == graded
    assert graded.has_verdict == result.has_verdict


def written(**fields: object) -> str:
    return json.dumps({"score": 1.0, "passed": True, **fields})


def test_what_is_read_may_leave_out_what_has_a_default() -> None:
    assert Graded.parse(written()) == Graded(score=1.0, passed=True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        1.0,
        {"score": 1.0, "passed": True},
        "",
        "def f(): pass",
        "{",
        "[]",
        "{}",
        '{"score": 1.0}',
        '{"passed": true}',
        "{" * 100_000,
        '{"score": ' + "[" * 100_000,
        written(score=1.5),
        written(score=-1),
        written(score="1"),
        written(score=True),
        written(score=math.nan),
        written(score=math.inf),
        written(score=10**400),
        written(passed=1),
        written(passed=None),
        written(unknown=1),
        written(error=1),
        written(answer_sha256=[]),
        written(isolation={}),
        pytest.param(written(score=None), id="no score though nothing went wrong"),
        pytest.param(written(score=None, passed=True, error_type="timeout"), id="passed without a verdict"),
        pytest.param(written(error_type="timeout"), id="a score without a verdict"),
        pytest.param(
            written(score=None, passed=False, error_type="solution_error"), id="a fault without its 0"
        ),
        pytest.param(written(passed=True, error_type="solution_error"), id="a fault that passed"),
        pytest.param(written(score=0.5, passed=False, error_type="solution_error"), id="a fault with credit"),
        written(error_type="of mine"),
        written(error_type=3),
        written(error_type=["timeout"]),
    ],
)
def test_anything_else_is_not_taken_for_a_run(text: object) -> None:
    assert Graded.parse(text) is None


@given(st.text() | st.text().map(lambda text: "{" + text))
def test_no_text_raises(text: str) -> None:
    assert Graded.parse(text) is None
