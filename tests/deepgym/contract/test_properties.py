"""What holds for every run, whatever was seen of it."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deepgym.contract.evidence import CaseFact, Evidence, Failure, Fate, Phase, Side
from deepgym.contract.protocol import parse_report
from deepgym.contract.verdict import judge
from deepgym.models import MODEL_FAULT_ERRORS, BatchResult, RunResult

KINDS = ["provider", "network", "supervisor", "cancelled", "deadline", "zygote", "zygote_again"]
text = st.text(max_size=20)
fates = st.builds(
    Fate,
    kind=st.sampled_from(["died", "evicted", "expired", "unreachable"]),
    source=st.sampled_from(["counter", "channel", "control_plane"]),
    message=text,
)
sides = st.builds(
    Side,
    phase=st.sampled_from(Phase),
    exit_code=st.none() | st.sampled_from([0, 1, 2, 3, 70, 124, 137]),
    signal=st.none() | st.sampled_from([9, 11]),
    killed=st.booleans(),
    fate=st.none() | st.none() | fates,
    oom=st.booleans(),
    setup_error=st.none() | st.none() | text,
)
numbers = st.floats() | st.integers() | st.booleans() | st.text(max_size=3) | st.none()
bodies = st.fixed_dictionaries(
    {},
    optional={
        "score": numbers | st.floats(0, 1),
        "passed": st.booleans() | numbers,
        "reward_components": st.dictionaries(text, numbers, max_size=2),
        "error_type": st.sampled_from([*sorted(MODEL_FAULT_ERRORS), "runtime_error", "gremlins"]),
        "seed": numbers,
    },
)
good_bodies = st.fixed_dictionaries({"score": st.floats(0, 1), "passed": st.booleans()})
encoded = (bodies | good_bodies).map(lambda body: json.dumps(body).encode())
reports = st.none() | st.binary(max_size=20) | encoded
any_text = st.text(st.characters(exclude_categories=()), max_size=20)
case_facts = st.builds(
    CaseFact,
    outcome=st.sampled_from(["passed", "passed", "wrong", "raised", "timeout", "malformed", "unanswered"]),
    message=text,
    weight=st.floats(0.0, 1e6),
)
evidences = st.builds(
    Evidence,
    failure=st.none() | st.none() | st.builds(Failure, kind=st.sampled_from(KINDS), message=text),
    solution=sides,
    verifier=st.none() | sides,
    in_play=st.booleans(),
    clock=st.none() | st.none() | st.sampled_from(["setup", "wall", "cpu", "output"]),
    cases=st.none() | st.lists(case_facts, max_size=4).map(tuple),
    solution_died=st.booleans(),
    report=reports,
    report_overflow=st.booleans(),
    output=any_text,
    verifier_stderr=any_text,
)
honest = st.one_of(
    st.builds(
        Evidence,
        in_play=st.just(True),
        cases=st.lists(case_facts, min_size=1, max_size=4).map(tuple),
    ),
    good_bodies.map(
        lambda body: Evidence(
            in_play=True,
            verifier=Side(exit_code=0 if body["passed"] else 1),
            report=json.dumps(body).encode(),
        )
    ),
)


@given(evidences)
def test_a_run_without_a_verdict_never_passes_and_has_no_reward(evidence: Evidence) -> None:
    result = judge(evidence)
    if not result.has_verdict:
        assert (result.score, result.passed, result.reward, result.reward_components) == (
            0.0,
            False,
            None,
            {},
        )
        assert result.error_type is not None
        assert result.error_type not in MODEL_FAULT_ERRORS
        assert all((case.score, case.passed) == (0.0, False) for case in result.cases)


@given(evidences)
def test_a_model_fault_is_a_zero_that_never_passes(evidence: Evidence) -> None:
    result = judge(evidence)
    if result.error_type in MODEL_FAULT_ERRORS:
        assert (result.score, result.passed, result.reward, result.has_verdict) == (0.0, False, 0.0, True)
        assert all(value <= 0 for value in result.reward_components.values())


@given(evidences)
def test_a_score_is_a_finite_float_in_range(evidence: Evidence) -> None:
    result = judge(evidence)
    assert type(result.score) is float
    assert 0.0 <= result.score <= 1.0
    assert math.isfinite(result.score)


@given(evidences)
def test_every_result_survives_its_own_json(evidence: Evidence) -> None:
    result = judge(evidence)
    assert RunResult.model_validate_json(result.model_dump_json()) == result


@given(numbers)
def test_only_a_real_number_in_range_is_ever_reward(score: Any) -> None:
    valid = type(score) in (int, float) and 0 <= score <= 1
    for passed, exit_code in ((True, 0), (False, 1)):
        report = json.dumps({"score": score, "passed": passed}).encode()
        result = judge(Evidence(in_play=True, verifier=Side(exit_code=exit_code), report=report))
        assert result.reward == (score if valid else 0.0)
        assert result.error_type == (None if valid else "solution_error")


@given(evidences)
def test_after_play_only_four_things_leave_a_run_without_a_verdict(evidence: Evidence) -> None:
    evidence = evidence.model_copy(update={"in_play": True})
    if not judge(evidence).has_verdict:
        sides = [evidence.solution] + ([evidence.verifier] if evidence.verifier else [])
        assert (
            evidence.failure is not None
            or any(side.fate is not None and side.fate.source == "control_plane" for side in sides)
            or (evidence.verifier is not None and evidence.verifier.exit_code == 2)
            or parse_report(evidence.report or b"").error_type not in MODEL_FAULT_ERRORS
        )


@given(evidences)
def test_before_play_nothing_is_judged(evidence: Evidence) -> None:
    evidence = evidence.model_copy(update={"in_play": False})
    again = evidence.failure is not None and evidence.failure.kind == "zygote_again"
    assert judge(evidence).has_verdict == again


def _failures_of(evidence: Evidence) -> list[dict[str, Any]]:
    verifier = evidence.verifier
    later: list[dict[str, Any]] = [
        {"clock": "wall"},
        {"clock": "output"},
        {"solution_died": True},
        {"solution": Side(fate=Fate(kind="died", source="channel"))},
        {"solution": Side(fate=Fate(kind="evicted", source="control_plane"))},
        {"failure": Failure(kind="zygote_again")},
        {"failure": Failure(kind="network")},
    ]
    if verifier is not None:
        later += [
            {"report_overflow": True},
            {"report": (evidence.report or b"") + b"\n" + (evidence.report or b"{}")},
            *({"verifier": Side(exit_code=code)} for code in (2, 3, 124, 137)),
            {"verifier": Side(signal=9)},
            {"verifier": Side(killed=True)},
        ]
    return later


@given(honest)
def test_a_later_failure_never_raises_a_reward(evidence: Evidence) -> None:
    before = judge(evidence)
    for failure in _failures_of(evidence):
        after = judge(evidence.model_copy(update=failure))
        assert after.score <= before.score
        assert after.reward is None or after.reward <= (before.reward or 0.0)
        assert not after.passed
        assert after.reward is None or after.reward == 0.0


@given(st.lists(honest, min_size=1, max_size=6), st.data())
def test_totals_never_rise_by_losing_a_verdict(runs: list[Evidence], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(runs) - 1))
    full = BatchResult(results=tuple(map(judge, runs)))
    runs[lost] = runs[lost].model_copy(update={"failure": Failure(kind="provider")})
    less = BatchResult(results=tuple(map(judge, runs)))
    assert less.passed <= full.passed
    assert less.failed >= full.failed
    assert less.pass_rate <= full.pass_rate
    assert less.avg_score <= full.avg_score
    assert less.judged_count == full.judged_count - 1
    for name in ("pass_rate", "avg_score"):
        low, high = getattr(less, f"{name}_bounds")
        assert low == getattr(less, name)
        assert low <= getattr(full, name) <= high + 1e-12


@given(evidences, encoded)
def test_evidence_is_judged_again_the_same_after_its_own_json(evidence: Evidence, report: bytes) -> None:
    plain = {"output": "out", "verifier_stderr": "err", "report": report}
    evidence = evidence.model_copy(update=plain)
    again = Evidence.model_validate_json(evidence.model_dump_json())
    assert judge(again) == judge(evidence)
