"""What verl is told beside the reward: always the same keys, numbers where there is a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym.models import MODEL_FAULT_ERRORS, RunResult
from deepgym_verl.info import KEYS, info_of, lost_info

PASSED = RunResult(score=1.0, passed=True, exit_code=0)
HALF = RunResult(score=0.5, passed=False, exit_code=1)
FAULT = RunResult(score=0.0, passed=False, error_type="solution_error")
LOST = RunResult(score=0.0, error_type="provider_error")


@pytest.mark.parametrize(
    ("result", "values"),
    [
        (PASSED, (1.0, 1.0, 1.0, 0.0, 0.0, 1.5, 3.0)),
        (HALF, (0.5, 0.0, 0.0, 0.0, 0.0, 1.5, 3.0)),
        (FAULT, (0.0, 0.0, 0.0, 0.0, 1.0, 1.5, 3.0)),
        (LOST, (0.0, 0.0, 0.0, 1.0, 0.0, 1.5, 3.0)),
    ],
)
def test_the_numbers_of_a_run(result: RunResult, values: tuple[float, ...]) -> None:
    info = info_of(result, 1.5, 3)
    assert tuple(info) == KEYS
    assert tuple(info.values()) == values
    assert {type(value) for value in info.values()} == {float}


def test_a_row_of_v1_s_validation_without_a_verdict_has_nothing_but_the_error() -> None:
    info = lost_info(1.5, 3)
    assert tuple(info) == KEYS
    assert info == {
        "score": None,
        "acc": None,
        "passed": None,
        "error": 1.0,
        "model_fault": None,
        "seconds": 1.5,
        "steps": 3.0,
    }


def test_a_pass_that_a_run_without_a_verdict_reported_counts_for_nothing() -> None:
    info = info_of(RunResult(score=1.0, passed=True, exit_code=2, error_type="verifier_error"), 0.0)
    assert (info["score"], info["acc"], info["passed"], info["error"]) == (0.0, 0.0, 0.0, 1.0)


@given(
    score=st.floats(0, 1),
    passed=st.booleans(),
    error=st.sampled_from([None, *MODEL_FAULT_ERRORS, "provider_error", "sandbox_error", "timeout"]),
    seconds=st.floats(0, 1e6),
    steps=st.integers(0, 1000),
)
def test_whatever_a_run_came_to_the_keys_are_the_same(
    score: float, passed: bool, error: Any, seconds: float, steps: int
) -> None:
    result = RunResult.model_construct(
        **{**PASSED.__dict__, "score": score, "passed": passed, "error_type": error}
    )
    info = info_of(result, seconds, steps)
    assert tuple(info) == KEYS == tuple(lost_info(seconds, steps))
    assert info["error"] == float(not result.has_verdict)
    assert info["error"] == 0.0 or info["score"] == info["acc"] == info["model_fault"] == 0.0
