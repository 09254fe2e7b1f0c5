"""The contract page, row by row, as evidence in and a result out.

Mutation testing (``nox -s mutation``) changes ``contract/verdict.py`` and ``contract/rulings.py``. Survivors: none of
463 with mutmut 3.8.1. It doesn't touch the order of ``RULES``; ``test_the_order_of_the_rules_is_noticed`` does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from deepgym.contract import rulings
from deepgym.contract.evidence import CaseFact, Evidence, Failure, Fate, Side
from deepgym.contract.verdict import RULES, Rule, judge
from deepgym.models import MODEL_FAULT_ERRORS, RunResult

IN_PLAY = {"in_play": True, "in_play_by": "mark"}
PASSED, WRONG = CaseFact(outcome="passed"), CaseFact(outcome="wrong")


def cases(*outcomes: CaseFact, **facts: Any) -> Evidence:
    """Evidence of declared cases in play."""
    return Evidence(**{**IN_PLAY, "solution": Side(killed=True), "cases": outcomes, **facts})


def program(report: object = None, exit_code: int | None = 0, **facts: Any) -> Evidence:
    """Evidence of a verifier program in play; ``report`` is bytes, or what to encode."""
    raw = report if isinstance(report, bytes) or report is None else json.dumps(report).encode()
    return Evidence(**{**IN_PLAY, "verifier": Side(exit_code=exit_code), "report": raw, **facts})


def died(kind: str, source: str) -> Side:
    return Side(fate=Fate(kind=kind, source=source))


GOOD = {"score": 1.0, "passed": True}
HALF = {"score": 0.5, "passed": False}
BEFORE = {"in_play": False, "in_play_by": None}

#: What happened, the error type it becomes, and whether that is a verdict.
ROWS: list[tuple[str, Evidence, str | None, bool]] = [
    # A provider or network failure has no verdict at any point, nor has one of our own process.
    ("provider before", cases(failure=Failure(kind="provider"), **BEFORE), "provider_error", False),
    ("provider after", cases(PASSED, failure=Failure(kind="provider")), "provider_error", False),
    ("network after", cases(PASSED, failure=Failure(kind="network")), "network_error", False),
    ("supervisor after", cases(PASSED, failure=Failure(kind="supervisor")), "sandbox_error", False),
    ("cancelled after", cases(PASSED, failure=Failure(kind="cancelled")), "cancelled", False),
    ("never started", cases(failure=Failure(kind="deadline"), **BEFORE), "deadline", False),
    ("zygote died", cases(PASSED, failure=Failure(kind="zygote")), "sandbox_error", False),
    ("failure with a pass", program(GOOD, failure=Failure(kind="network")), "network_error", False),
    # A zygote that dies again with the run alone is the answer's doing.
    ("zygote again", cases(PASSED, failure=Failure(kind="zygote_again")), "policy_sandbox_failure", True),
    (
        "zygote again under a verifier that gave up",
        program(GOOD, 2, failure=Failure(kind="zygote_again")),
        "policy_sandbox_failure",
        True,
    ),
    # What the control plane says it took away.
    ("evicted", cases(PASSED, solution=died("evicted", "control_plane")), "provider_error", False),
    ("expired", cases(PASSED, solution=died("expired", "control_plane")), "sandbox_error", False),
    ("unreachable", cases(PASSED, solution=died("unreachable", "control_plane")), "network_error", False),
    ("verifier evicted", program(GOOD, None, verifier=died("evicted", "control_plane")), "provider_error", False),
    # The same words from a channel or a counter are no proof.
    ("evicted, by the channel", cases(PASSED, solution=died("evicted", "channel")), "policy_sandbox_failure", True),
    ("died, by the control plane", cases(PASSED, solution=died("died", "control_plane")), "policy_sandbox_failure", True),
    ("unreachable, by a counter", cases(PASSED, solution=died("unreachable", "counter")), "policy_sandbox_failure", True),
    # The verifier exited 2.
    ("gave up before", program(None, 2, **BEFORE), "verifier_error", False),
    ("gave up after", program(None, 2), "verifier_error", False),
    ("gave up after a report", program(GOOD, 2), "verifier_error", False),
    ("gave up after the solution died", program(None, 2, solution_died=True), "verifier_error", False),
    # Before the answer is in play: a limit, a dead sandbox, a failed verifier.
    ("set-up clock before", cases(clock="setup", **BEFORE), "timeout", False),
    ("wall clock before", cases(clock="wall", **BEFORE), "timeout", False),
    ("verifier's clock before", program(None, None, clock="wall", **BEFORE), "timeout", False),
    ("output before", cases(clock="output", **BEFORE), "timeout", False),
    ("sandbox died before", cases(solution=died("died", "channel"), **BEFORE), "sandbox_error", False),
    ("set-up failed", cases(solution=Side(setup_error="no tmpfs"), **BEFORE), "sandbox_error", False),
    ("out of memory before", cases(solution=Side(oom=True), **BEFORE), "sandbox_error", False),
    ("process ended before", cases(solution=Side(exit_code=1), **BEFORE), "sandbox_error", False),
    ("process killed before", cases(solution=Side(signal=9), **BEFORE), "sandbox_error", False),
    ("killed before, with verifier", program(None, solution=Side(signal=9), **BEFORE), "sandbox_error", False),
    ("died before, with verifier", program(None, 70, solution_died=True, **BEFORE), "sandbox_error", False),
    ("verifier's set-up failed", program(None, verifier=Side(setup_error="x"), **BEFORE), "sandbox_error", False),
    ("verifier's memory before", program(None, verifier=Side(oom=True), **BEFORE), "sandbox_error", False),
    ("verifier's sandbox died before", program(None, verifier=died("died", "channel"), **BEFORE), "sandbox_error", False),
    ("verifier crashed before", program(None, 70, **BEFORE), "verifier_error", False),
    ("verifier signalled before", program(None, verifier=Side(signal=11), **BEFORE), "verifier_error", False),
    ("no report before", program(None, 0, **BEFORE), "verifier_error", False),
    ("a report before anything", program(GOOD, 0, **BEFORE), "verifier_error", False),
    ("malformed report before", program(b"nonsense", 0, **BEFORE), "verifier_error", False),
    ("report too long before", program(None, 0, report_overflow=True, **BEFORE), "verifier_error", False),
    ("bad score before", program({"score": 2, "passed": True}, 0, **BEFORE), "invalid_score", False),
    ("NaN before", program(b'{"score": NaN}', 0, **BEFORE), "invalid_score", False),
    ("own word before", program({"error_type": "runtime_error"}, 1, **BEFORE), "runtime_error", False),
    ("model fault before", program({"error_type": "invalid_patch"}, 1, **BEFORE), "verifier_error", False),
    # After it: the answer's own 0.
    ("sandbox died after", cases(PASSED, solution=died("died", "channel")), "policy_sandbox_failure", True),
    ("verifier's sandbox died after", program(GOOD, 0, verifier=died("died", "counter")), "policy_sandbox_failure", True),
    ("set-up failed after", program(None, verifier=Side(setup_error="x")), "policy_sandbox_failure", True),
    ("wall clock after", cases(PASSED, clock="wall"), "solution_timeout", True),
    ("cpu clock after", cases(PASSED, clock="cpu"), "solution_timeout", True),
    ("set-up clock after", program(GOOD, 0, clock="setup"), "solution_timeout", True),
    ("verifier's clock after", program(GOOD, None, clock="wall"), "solution_timeout", True),
    ("output flood", cases(PASSED, clock="output"), "solution_error", True),
    ("solution died", cases(PASSED, solution_died=True), "solution_error", True),
    ("solution died under a verifier", program(GOOD, 0, solution_died=True), "solution_error", True),
    ("verifier crashed after", program(None, 70), "solution_error", True),
    ("verifier crashed after a pass", program(GOOD, 70), "solution_error", True),
    ("verifier signalled after a pass", program(GOOD, verifier=Side(signal=11)), "solution_error", True),
    ("verifier killed after a pass", program(GOOD, verifier=Side(killed=True)), "solution_error", True),
    ("negative status", program(GOOD, -1), "solution_error", True),
    ("crash after its own word", program({"error_type": "runtime_error"}, 70), "solution_error", True),
    ("no report after", program(None, 0), "solution_error", True),
    ("malformed report after", program(b"nonsense", 0), "solution_error", True),
    ("two reports", program(b'{"score":1,"passed":true}\n{"score":1,"passed":true}', 0), "solution_error", True),
    ("report too long after", program(GOOD, 0, report_overflow=True), "solution_error", True),
    ("bad score after", program({"score": 2, "passed": True}, 0), "solution_error", True),
    ("NaN after", program(b'{"score": NaN, "passed": true}', 0), "solution_error", True),
    ("bool score after", program({"score": True, "passed": True}, 0), "solution_error", True),
    ("failed but passed", program(GOOD, 1), "solution_error", True),
    ("passed but failed", program({"score": 1.0, "passed": False}, 0), "solution_error", True),
    ("nothing asked", cases(), "solution_error", True),
    ("no cases at all", Evidence(**IN_PLAY), "solution_error", True),
    # The verifier's own word.
    *((fault, program({"error_type": fault}, 1), fault, True) for fault in sorted(MODEL_FAULT_ERRORS)),
    ("fault with a score", program({"score": 1, "passed": True, "error_type": "invalid_patch"}, 0), "invalid_patch", True),
    ("sandbox_error reported", program({"error_type": "sandbox_error"}, 1), "sandbox_error", False),
    ("runtime_error with a pass", program({**GOOD, "error_type": "runtime_error"}, 0), "runtime_error", False),
    ("timeout reported", program({"error_type": "timeout"}, 1), "timeout", False),
    ("an unknown word", program({**GOOD, "error_type": "gremlins"}, 0), "other", False),
    # Two things at once: the earlier rule decides.
    ("network, and evicted", cases(failure=Failure(kind="network"), solution=died("evicted", "control_plane")), "network_error", False),
    ("evicted, and gave up", program(None, 2, solution=died("evicted", "control_plane")), "provider_error", False),
    ("gave up before, and late", program(None, 2, clock="wall", **BEFORE), "verifier_error", False),
    ("sandbox died in a flood", cases(clock="output", solution=died("died", "channel")), "policy_sandbox_failure", True),
    ("died, and late", cases(clock="wall", solution_died=True), "solution_timeout", True),
    ("own word, and a contradiction", program({"score": 0, "passed": True, "error_type": "runtime_error"}, 1), "runtime_error", False),
    # Nothing went wrong.
    ("all passed", cases(PASSED, PASSED), None, True),
    ("some wrong", cases(PASSED, WRONG), None, True),
    ("a case timed out", cases(PASSED, CaseFact(outcome="timeout")), None, True),
    ("a case raised", cases(PASSED, CaseFact(outcome="raised")), None, True),
    ("memory counter alone", cases(PASSED, solution=Side(oom=True)), None, True),
    ("reported pass", program(GOOD, 0), None, True),
    ("reported failure", program(HALF, 1), None, True),
]  # fmt: skip
IDS = [name for name, *_ in ROWS]


@pytest.mark.parametrize(("name", "evidence", "error_type", "has_verdict"), ROWS, ids=IDS)
def test_each_row_of_the_contract_becomes_what_it_says(
    name: str, evidence: Evidence, error_type: str | None, has_verdict: bool
) -> None:
    result = judge(evidence)
    assert (result.error_type, result.has_verdict) == (error_type, has_verdict)
    facts = rulings.read(evidence)
    assert next(rule for rule in RULES if rule.holds(facts)).ruling(facts).error_type == error_type
    if error_type is not None:
        assert (result.score, result.passed) == (0.0, False)
        assert result.error
        assert result.reward == (0.0 if has_verdict else None)
    assert (error_type in MODEL_FAULT_ERRORS) == (has_verdict and error_type is not None)


@pytest.mark.parametrize(("name", "evidence", "error_type", "has_verdict"), ROWS, ids=IDS)
def test_a_result_survives_its_own_json(
    name: str, evidence: Evidence, error_type: str | None, has_verdict: bool
) -> None:
    result = judge(evidence)
    assert RunResult.model_validate_json(result.model_dump_json()) == result
    assert json.loads(result.model_dump_json())["has_verdict"] is has_verdict


def test_every_rule_decides_some_row() -> None:
    deciding = set()
    for _, evidence, *_ in ROWS:
        facts = rulings.read(evidence)
        deciding.add(next(rule.name for rule in RULES if rule.holds(facts)))
    assert deciding == {rule.name for rule in RULES}


#: Neighbours that never hold for the same evidence, so that their order says nothing.
NEVER_BOTH = {
    ("verifier before play", "sandbox broke"): "a sandbox that broke before play is an earlier rule's",
    ("report unusable", "declared cases"): "one needs a verifier, the other that there is none",
    ("declared cases", "verifier's report"): "there is no report without a verifier",
}


def _decisions(rules: tuple[Rule, ...]) -> list[tuple[str | None, str | None]]:
    decided = []
    for evidence in [*(row[1] for row in ROWS), *(row[0] for row in MESSAGES)]:
        facts = rulings.read(evidence)
        try:
            ruling = next(rule for rule in rules if rule.holds(facts)).ruling(facts)
            decided.append((ruling.error_type, ruling.error))
        except (KeyError, AssertionError):
            decided.append((None, "asked of a rule that can't tell"))
    return decided


@pytest.mark.parametrize("at", range(len(RULES) - 1))
def test_the_order_of_the_rules_is_noticed(at: int) -> None:
    swapped = (*RULES[:at], RULES[at + 1], RULES[at], *RULES[at + 2 :])
    names = (RULES[at].name, RULES[at + 1].name)
    assert (_decisions(swapped) != _decisions(RULES)) == (names not in NEVER_BOTH)


def test_no_two_rules_share_a_name() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_judging_twice_gives_equal_results() -> None:
    evidence = program(HALF, 1, timings={"run": 3.0}, output="x")
    assert judge(evidence) == judge(evidence)


# Scores.


def test_declared_cases_score_the_weight_of_those_that_passed() -> None:
    result = judge(cases(CaseFact(outcome="passed", weight=3.0), CaseFact(outcome="wrong", weight=1.0)))
    assert (result.score, result.passed) == (0.75, False)


def test_cases_that_all_pass_score_exactly_one() -> None:
    result = judge(cases(*(CaseFact(outcome="passed", weight=0.1) for _ in range(7))))
    assert (result.score, result.passed) == (1.0, True)


@pytest.mark.parametrize("outcome", ["wrong", "raised", "timeout", "malformed", "unanswered"])
def test_a_case_passes_by_no_other_outcome(outcome: str) -> None:
    result = judge(cases(CaseFact(outcome=outcome)))
    assert (result.score, result.passed, result.has_verdict) == (0.0, False, True)
    assert [(case.passed, case.score, case.outcome) for case in result.cases] == [(False, 0.0, outcome)]


def test_cases_without_weight_score_nothing() -> None:
    result = judge(cases(CaseFact(outcome="passed", weight=0.0), CaseFact(outcome="wrong", weight=0.0)))
    assert (result.score, result.passed, result.has_verdict) == (0.0, False, True)


def test_declared_cases_come_back_one_by_one() -> None:
    fact = CaseFact(outcome="raised", message="ValueError: no", name="empty", execution_time_ms=1.5)
    first, second = judge(cases(PASSED, fact)).cases
    assert (first.passed, first.score, first.outcome) == (True, 1.0, "passed")
    assert (second.name, second.message, second.execution_time_ms) == ("empty", "ValueError: no", 1.5)
    assert (second.passed, second.score, second.outcome) == (False, 0.0, "raised")


def test_a_passed_case_keeps_its_message_and_its_time() -> None:
    told = CaseFact(outcome="passed", name="a", message="slow")
    timed = CaseFact(outcome="passed", name="b", execution_time_ms=2.0)
    first, second, third = judge(cases(told, timed, CaseFact(outcome="passed", name="c"))).cases
    assert (first.name, first.message, first.score, first.passed) == ("a", "slow", 1.0, True)
    assert (second.name, second.execution_time_ms, second.score) == ("b", 2.0, 1.0)
    assert (third.name, third.message, third.execution_time_ms) == ("c", "", None)


def test_cases_of_a_run_that_broke_earn_nothing() -> None:
    (case,) = judge(cases(PASSED, clock="wall")).cases
    assert (case.outcome, case.passed, case.score) == ("passed", False, 0.0)


def test_a_report_is_taken_over_whole() -> None:
    body = {
        "score": 0.5,
        "passed": False,
        "cases": [
            {"name": "a", "passed": True},
            {"name": "b", "passed": False, "score": 0.25, "message": "no"},
        ],
        "reward_components": {"style": 0.5},
        "metrics": {"lines": 3},
        "details": {"seen": [1, None]},
        "seed": 7,
    }
    result = judge(program(body, 1, seed=3))
    assert (result.score, result.passed, result.exit_code, result.seed) == (0.5, False, 1, 7)
    assert [(case.name, case.passed, case.score, case.message) for case in result.cases] == [
        ("a", True, 1.0, ""),
        ("b", False, 0.25, "no"),
    ]
    assert [case.outcome for case in result.cases] == ["passed", "wrong"]
    assert (result.reward_components, result.metrics, result.details) == (
        {"style": 0.5},
        {"lines": 3.0},
        {"seen": [1, None]},
    )


def test_the_exit_status_tells_a_pass_where_the_report_does_not() -> None:
    assert judge(program({"score": 0.9}, 0)).passed
    assert not judge(program({"score": 0.9}, 1)).passed


def test_a_pass_keeps_the_score_it_was_reported_with() -> None:
    result = judge(program({"score": 0.25, "passed": True}, 0))
    assert (result.score, result.passed) == (0.25, True)


def test_a_reported_fault_keeps_its_message_and_metrics_and_no_reward() -> None:
    body = {
        "score": 1.0,
        "error_type": "test_infra_tampering",
        "error": "the diff touches conftest.py",
        "reward_components": {"tests": 1.0, "penalty": -0.5},
        "metrics": {"files": 2},
        "details": {"path": "conftest.py"},
        "cases": [{"name": "a", "passed": True}],
    }
    result = judge(program(body, 1))
    assert result.error == "the diff touches conftest.py"
    assert result.reward_components == {"tests": 0.0, "penalty": -0.5}
    assert (result.metrics, result.details) == ({"files": 2.0}, {"path": "conftest.py"})
    assert [(case.name, case.passed, case.score) for case in result.cases] == [("a", False, 0.0)]


def test_a_report_before_a_crash_leaves_nothing_behind() -> None:
    body = {"score": 1.0, "reward_components": {"a": 1.0}, "metrics": {"m": 1}, "cases": [{"passed": True}]}
    result = judge(program(body, 70))
    assert (result.score, result.reward_components, result.metrics, result.cases) == (0.0, {}, {}, ())


# What is carried over.


def test_what_was_seen_of_the_run_is_carried_over() -> None:
    carried = {
        "run_id": "r1",
        "env_name": "two_sum",
        "env_digest": "d",
        "answer_sha256": "e",
        "sandbox_id": "s",
        "isolation": "namespaces",
        "seed": 5,
        "output": "out",
        "truncated": True,
        "execution_time_ms": 12.5,
        "timings": {"run": 12.5},
    }
    result = judge(cases(PASSED, **carried))
    assert {name: getattr(result, name) for name in carried} == carried


def test_a_seed_that_nobody_reported_is_the_runs_own() -> None:
    assert judge(program(GOOD, 0, seed=3)).seed == 3
    assert judge(program({**GOOD, "seed": 0}, 0, seed=3)).seed == 0


@pytest.mark.parametrize(
    ("solution", "verifier", "joined"),
    [("a", "", "a"), ("", "b", "b"), ("a", "b", "a\nb"), ("", "", "")],
)
def test_stderr_holds_the_solutions_and_then_the_verifiers(solution: str, verifier: str, joined: str) -> None:
    assert judge(program(GOOD, 0, stderr=solution, verifier_stderr=verifier)).stderr == joined


def test_exit_statuses_stay_apart() -> None:
    result = judge(program(HALF, 1, solution=Side(exit_code=0)))
    assert (result.exit_code, result.solution_exit) == (1, 0)
    result = judge(cases(PASSED, solution=Side(signal=9)))
    assert (result.exit_code, result.solution_exit) == (None, -9)
    assert judge(program(GOOD, 0, solution=Side(killed=True))).solution_exit is None


def test_a_verifier_that_gave_up_shows_its_status() -> None:
    assert judge(program(None, 2)).exit_code == 2


def test_a_verifier_that_lost_its_zygote_to_the_answer_did_not_give_up() -> None:
    assert judge(program(None, 2, failure=Failure(kind="zygote_again"))).exit_code is None


MESSAGES: list[tuple[Evidence, str]] = [
    (cases(failure=Failure(kind="zygote_again")), "the sandbox's zygote died with this run, and again with it alone"),
    (cases(failure=Failure(kind="provider", message="HTTP 503")), "HTTP 503"),
    (cases(failure=Failure(kind="network")), "network failure"),
    (cases(solution=Side(fate=Fate(kind="evicted", source="control_plane", message="spot"))), "spot"),
    (cases(solution=died("evicted", "control_plane")), "the sandbox was evicted"),
    (program(None, verifier=died("expired", "control_plane"), solution=died("died", "channel")), "the sandbox was expired"),
    (program(None, verifier=died("expired", "control_plane"), solution=died("evicted", "channel")), "the sandbox was expired"),
    (program(None, 2), "the verifier exited 2"),
    (program(None, 2, verifier_stderr="Traceback\nKeyError: 1\n"), "the verifier exited 2: KeyError: 1"),
    (program({"score": 0, "error": "no data file"}, 2), "no data file"),
    (cases(clock="setup", **BEFORE), "the setup limit was exceeded before the answer came into play"),
    (cases(solution=Side(setup_error="no tmpfs"), **BEFORE), "before the answer came into play, the solution's sandbox couldn't be set up: no tmpfs"),
    (cases(solution=Side(oom=True), **BEFORE), "before the answer came into play, the solution's process ran out of memory"),
    (cases(solution=Side(exit_code=3), **BEFORE), "before the answer came into play, the solution's process ended early with status 3"),
    (program(None, verifier=died("died", "channel"), **BEFORE), "before the answer came into play, the verifier's sandbox died: no more is known"),
    (program(None, 70, verifier_stderr="KeyError: 1", **BEFORE), "before the answer came into play, the verifier crashed with status 70: KeyError: 1"),
    (program(None, 0, **BEFORE), "before the answer came into play, the verifier reported nothing"),
    (program(GOOD, 0, **BEFORE), "before the answer came into play, the verifier reported a result"),
    (program(HALF, 1, **BEFORE), "before the answer came into play, the verifier reported a result"),
    (program({"score": 2}, 0, **BEFORE), "score is 2, not a number in [0, 1]"),
    (program({"error_type": "runtime_error"}, 1, **BEFORE), "the verifier reported runtime_error"),
    (cases(solution=Side(fate=Fate(kind="died", source="counter", message="oom_kill"))), "the solution's sandbox died: oom_kill"),
    (cases(clock="output"), "the output limit was exceeded"),
    (cases(clock="cpu"), "the cpu limit was exceeded"),
    (cases(solution_died=True, solution=Side(signal=11)), "the solution's process was ended by signal 11"),
    (cases(solution_died=True, solution=Side(oom=True, signal=9)), "the solution's process ran out of memory"),
    (cases(solution_died=True, solution=Side(exit_code=0)), "the solution's process ended early with status 0"),
    (cases(solution_died=True), "the solution's process ended early"),
    (program(None, 70, solution_died=True), "the solution's process ended early"),
    (program(None, 70, verifier_stderr=" \n"), "the verifier crashed with status 70"),
    (program(None, verifier=Side(signal=11)), "the verifier was ended by signal 11"),
    (program(None, verifier=Side(killed=True)), "the verifier didn't end by itself"),
    (program(None, 0), "the verifier reported nothing"),
    (program(None, 0, report_overflow=True), "the report was too long"),
    (program(GOOD, 1), "the verifier exited 1 but reported passed: true"),
    (program({"score": 0, "passed": False}, 0), "the verifier exited 0 but reported passed: false"),
    (program({"error_type": "gremlins"}, 1), "the verifier reported gremlins"),
    (cases(), "the run ended and no case was answered"),
]  # fmt: skip


@pytest.mark.parametrize(("evidence", "message"), MESSAGES)
def test_the_error_says_what_was_seen(evidence: Evidence, message: str) -> None:
    assert judge(evidence).error == message


def test_a_report_that_was_cut_off_is_malformed() -> None:
    error = rulings.read(program(GOOD, 0, report_overflow=True)).report_error
    assert error is not None
    assert error.kind == "malformed"


def test_a_judged_run_has_no_error() -> None:
    assert judge(cases(PASSED)).error is None
    assert judge(program(HALF, 1, verifier_stderr="a warning")).error is None


def test_text_that_an_answer_wrote_is_bounded_and_valid() -> None:
    evidence = program(None, 70, verifier_stderr="\ud800" * 5000, output="\udfff", stderr="\ud900")
    result = judge(evidence)
    assert result.error is not None
    assert len(result.error) <= 2000
    for text in (result.error, result.output, result.stderr):
        text.encode("utf-8")
    assert RunResult.model_validate_json(result.model_dump_json()) == result


def test_what_the_verifiers_host_saw_of_the_solutions_end_is_the_error() -> None:
    """A malformed reply isn't an end with a status; without a word for it the process's end is told."""
    facts = {"in_play": True, "solution_died": True, "verifier": Side(exit_code=0)}
    told = judge(Evidence(solution=Side(exit_code=0), details={"fault": "its reply was malformed"}, **facts))
    assert (told.error_type, told.error) == ("solution_error", "its reply was malformed")
    for details in ({}, {"fault": None}, {"fault": 3}):
        untold = judge(Evidence(solution=Side(exit_code=7), details=details, **facts))
        assert untold.error_type == "solution_error"
        assert untold.error is not None
        assert "status 7" in untold.error
