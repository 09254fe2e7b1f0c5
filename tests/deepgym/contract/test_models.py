from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from deepgym.contract.evidence import CaseFact
from deepgym.models import (
    ERROR_TYPES,
    MODEL_FAULT_ERRORS,
    BatchResult,
    CaseResult,
    EvalResult,
    RunResult,
)

PASS = RunResult(score=1.0, passed=True)
FAIL = RunResult(score=0.25)
LOST = RunResult(score=0.0, error_type="provider_error")
FAULT = RunResult(score=0.0, error_type="solution_timeout")


def test_the_model_faults_are_the_six_of_the_contract() -> None:
    assert {
        "invalid_patch",
        "patch_apply_failed",
        "test_infra_tampering",
        "solution_error",
        "solution_timeout",
        "policy_sandbox_failure",
    } == MODEL_FAULT_ERRORS
    assert MODEL_FAULT_ERRORS < ERROR_TYPES


NO_SCORES = [True, False, None, "1.0", "", b"1", float("nan"), float("inf"), -0.1, 1.1, 10**400, [1], 1j]


@pytest.mark.parametrize("score", NO_SCORES)
def test_what_is_no_score_has_no_verdict(score: Any) -> None:
    result = RunResult(score=score, passed=True)
    assert (result.error_type, result.score, result.passed) == ("invalid_score", 0.0, False)
    assert (result.has_verdict, result.reward) == (False, None)
    assert result.error


@pytest.mark.parametrize(("score", "reward"), [(0, 0.0), (1, 1.0), (0.5, 0.5), (-0.0, 0.0)])
def test_a_score_in_range_is_the_reward_as_a_float(score: Any, reward: float) -> None:
    result = RunResult(score=score)
    assert (result.reward, type(result.score)) == (reward, float)


@pytest.mark.parametrize("fault", sorted(MODEL_FAULT_ERRORS))
def test_a_model_fault_is_a_verdict_of_zero(fault: Any) -> None:
    result = RunResult(score=0.9, passed=True, error_type=fault)
    assert (result.has_verdict, result.reward, result.passed) == (True, 0.0, False)


@pytest.mark.parametrize("error_type", sorted(ERROR_TYPES - MODEL_FAULT_ERRORS))
def test_every_other_error_type_is_no_verdict(error_type: Any) -> None:
    result = RunResult(score=0.9, passed=True, error_type=error_type)
    assert (result.has_verdict, result.reward, result.score, result.passed) == (False, None, 0.0, False)


def test_a_bad_score_beside_an_error_type_keeps_the_error_type() -> None:
    assert RunResult(score=float("nan"), error_type="solution_error").error_type == "solution_error"
    assert RunResult(score=None, error_type="timeout").error_type == "timeout"


def test_a_verifier_that_exited_2_is_no_verdict() -> None:
    result = RunResult(score=1.0, passed=True, exit_code=2)
    assert (result.error_type, result.has_verdict, result.passed) == ("verifier_error", False, False)
    assert not RunResult(score=0.0, error_type="solution_error", exit_code=2).has_verdict


@pytest.mark.parametrize("unknown", ["gremlins", 7, ["sandbox_error"]])
def test_an_unknown_error_type_is_other(unknown: Any) -> None:
    result = RunResult(score=1.0, passed=True, error_type=unknown)
    assert (result.error_type, result.has_verdict, result.passed) == ("other", False, False)
    assert result.error is not None
    assert "unknown error type" in result.error


def test_no_score_at_all_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValidationError):
        RunResult()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "wrong",
    [
        {"passed": 1},
        {"passed": "yes"},
        {"exit_code": "2"},
        {"scores": 1},
        {"metrics": {"a": float("nan")}},
        {"reward_components": {"a": float("inf")}},
        {"execution_time_ms": float("nan")},
        {"timings": {"run": float("inf")}},
        {"cases": [{"passed": True, "score": float("nan"), "outcome": "passed"}]},
        {"cases": [{"passed": True, "score": True, "outcome": "passed"}]},
        {"cases": [{"passed": True, "score": 2.0, "outcome": "passed"}]},
    ],
    ids=str,
)
def test_a_result_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RunResult(**{"score": 1.0, **wrong})


@pytest.mark.parametrize(
    "model", [PASS, CaseResult(passed=True, score=1.0, outcome="passed"), BatchResult(results=())]
)
def test_results_are_frozen(model: Any) -> None:
    with pytest.raises(ValidationError):
        model.passed = False


def test_a_case_has_every_outcome_that_a_fact_has() -> None:
    case, fact = CaseResult.model_fields["outcome"], CaseFact.model_fields["outcome"]
    assert case.annotation == fact.annotation


def test_a_fault_earns_nothing_anywhere() -> None:
    case = CaseResult(name="a", passed=True, score=1.0, outcome="passed", message="m", execution_time_ms=1.0)
    result = RunResult(
        score=1.0,
        error_type="solution_timeout",
        cases=(case,),
        reward_components={"tests": 1.0, "penalty": -0.5},
    )
    assert result.reward_components == {"tests": 0.0, "penalty": -0.5}
    assert result.cases == (case.model_copy(update={"passed": False, "score": 0.0}),)


def test_without_a_verdict_there_are_no_components() -> None:
    result = RunResult(score=1.0, error_type="timeout", reward_components={"tests": 1.0, "penalty": -0.5})
    assert result.reward_components == {}


def test_text_is_bounded_and_says_so() -> None:
    result = RunResult(score=0.0, output="x" * (1 << 21), error="y" * 5000, error_type="other")
    assert (len(result.output), result.truncated) == (1 << 20, True)
    assert result.error is not None
    assert len(result.error) == 2000
    assert not RunResult(score=0.0, output="x").truncated


BAD = "a\ud800\udfffb"


def test_lone_surrogates_are_replaced_everywhere() -> None:
    result = RunResult(
        score=1.0,
        output=BAD,
        stderr=BAD,
        error=BAD,
        sandbox_id=BAD,
        isolation=BAD,
        run_id=BAD,
        env_name=BAD,
        env_digest=BAD,
        answer_sha256=BAD,
        reward_components={BAD: 1.0},
        metrics={BAD: 1.0},
        timings={BAD: 1.0},
        details={BAD: [BAD, {BAD: BAD}]},
        cases=(CaseResult(name=BAD, passed=True, score=1.0, outcome="passed", message=BAD),),
    )
    assert BAD not in result.model_dump_json()
    assert RunResult.model_validate_json(result.model_dump_json()) == result


def test_details_become_json() -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = [deep]
    odd = {
        "nan": float("nan"),
        "set": {1},
        "tuple": (1, 2),
        "huge": 10**5000,
        7: None,
        "deep": deep,
        "yes": True,
    }
    result = RunResult(score=1.0, details=odd)  # type: ignore[arg-type]
    assert result.details["nan"] == "nan"
    assert result.details["set"] == "<set>"
    assert result.details["tuple"] == [1, 2]
    assert result.details["huge"] == "<int>"
    assert result.details["7"] is None
    assert result.details["yes"] is True
    assert RunResult.model_validate_json(result.model_dump_json()) == result


FULL = RunResult(
    score=0.5,
    output="out",
    exit_code=1,
    solution_exit=-9,
    execution_time_ms=3.5,
    reward_components={"a": 0.5},
    metrics={"b": 2.0},
    details={"c": [1]},
    cases=(CaseResult(name="a", passed=False, score=0.5, outcome="wrong", execution_time_ms=1.0),),
    seed=3,
    truncated=True,
    timings={"run": 3.5},
    run_id="r",
)


@pytest.mark.parametrize("result", [FULL, PASS, LOST, FAULT, RunResult(score=1.0, exit_code=2)])
def test_a_result_survives_json_and_pickling(result: RunResult) -> None:
    dumped = json.loads(result.model_dump_json())
    assert dumped["has_verdict"] is result.has_verdict
    assert dumped["reward"] == result.reward
    assert RunResult.model_validate_json(result.model_dump_json()) == result
    assert RunResult.model_validate(dumped) == result
    assert RunResult(**result.model_dump()) == result
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_claimed_verdict_is_not_believed() -> None:
    forged = {**LOST.model_dump(), "has_verdict": True, "reward": 1.0, "score": 1.0, "passed": True}
    result = RunResult.model_validate(forged)
    assert (result.has_verdict, result.reward, result.score) == (False, None, 0.0)


# Totals.

BATCH = BatchResult(results=(PASS, PASS, FAIL, LOST, FAULT))


def test_headline_totals_count_a_lost_verdict_as_a_failed_zero() -> None:
    assert (BATCH.total, BATCH.passed, BATCH.failed) == (5, 2, 3)
    assert (BATCH.avg_score, BATCH.pass_rate) == (2.25 / 5, 2 / 5)


def test_judged_totals_leave_a_lost_verdict_out() -> None:
    assert (BATCH.no_verdict_count, BATCH.judged_count) == (1, 4)
    assert (BATCH.judged_pass_rate, BATCH.judged_mean_score) == (2 / 4, 2.25 / 4)


def test_bounds_are_what_the_lost_verdicts_could_have_been() -> None:
    assert BATCH.pass_rate_bounds == (2 / 5, 3 / 5)
    assert BATCH.avg_score_bounds == (2.25 / 5, 3.25 / 5)


def test_rewards_have_none_for_a_lost_verdict() -> None:
    assert BATCH.rewards == [1.0, 1.0, 0.25, None, 0.0]


@pytest.mark.parametrize("results", [(), (LOST, LOST)])
def test_totals_of_nothing_judged_are_zero(results: tuple[RunResult, ...]) -> None:
    batch = BatchResult(results=results)
    assert (batch.judged_count, batch.judged_pass_rate, batch.judged_mean_score) == (0, 0.0, 0.0)
    assert (batch.pass_rate, batch.avg_score) == (0.0, 0.0)
    assert batch.pass_rate_bounds == batch.avg_score_bounds == ((0.0, 1.0) if results else (0.0, 0.0))


def test_the_totals_line_is_the_contracts() -> None:
    results = [PASS] * 63 + [FAIL] * 27 + [LOST] * 10
    line = BatchResult(results=tuple(results)).totals_line
    assert line == "Pass Rate: 63.00% (judged 70.00%, 10.00% no verdict)"


def test_a_batch_survives_json_with_its_totals_in_it() -> None:
    dumped = json.loads(BATCH.model_dump_json())
    for name in ("total", "passed", "failed", "avg_score", "pass_rate", "no_verdict_count", "judged_count"):
        assert dumped[name] == getattr(BATCH, name)
    for name in ("judged_pass_rate", "judged_mean_score"):
        assert dumped[name] == getattr(BATCH, name)
    assert dumped["pass_rate_bounds"] == list(BATCH.pass_rate_bounds)
    assert dumped["avg_score_bounds"] == list(BATCH.avg_score_bounds)
    assert BatchResult.model_validate_json(BATCH.model_dump_json()) == BATCH
    assert pickle.loads(pickle.dumps(BATCH)) == BATCH


def test_a_claimed_total_is_not_believed() -> None:
    assert BatchResult.model_validate({"results": [], "total": 7, "passed": 7}).total == 0


def test_an_evaluation_names_its_environments_in_order() -> None:
    results = (RunResult(score=1.0, env_name="a"), RunResult(score=0.0, env_name="b"))
    evaluation = EvalResult(suite="easy", results=results)
    assert (evaluation.env_names, evaluation.suite, evaluation.total) == (("a", "b"), "easy", 2)
    assert EvalResult(results=results, env_names=("x", "y")).env_names == ("x", "y")
    assert EvalResult.model_validate_json(evaluation.model_dump_json()) == evaluation


def test_an_evaluation_needs_a_name_for_each_result() -> None:
    with pytest.raises(ValidationError, match="1 env_names for 2 results"):
        EvalResult(results=(PASS, FAIL), env_names=("a",))


@pytest.mark.parametrize("model", [RunResult, BatchResult, EvalResult])
def test_what_is_no_object_is_refused(model: Any) -> None:
    with pytest.raises(ValidationError):
        model.model_validate([1])
