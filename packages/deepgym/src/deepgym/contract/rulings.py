"""What a rule of the verdict makes of a run: an error type and its message, or a score."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from deepgym.contract.evidence import CaseFact, Evidence, Side
from deepgym.contract.protocol import Report, ReportError, parse_report
from deepgym.models import MODEL_FAULT_ERRORS, CaseResult, ErrorType, RunResult

__all__ = ["Facts", "Ruling"]


class Facts(NamedTuple):
    """Evidence and what its report turned out to be: a report, an error, or neither."""

    evidence: Evidence
    report: Report | None
    report_error: ReportError | None

    @property
    def sides(self) -> dict[str, Side]:
        """The solution's side, and the verifier's where there is one."""
        verifier = self.evidence.verifier
        others = {} if verifier is None else {"verifier": verifier}
        return {"solution": self.evidence.solution, **others}


@dataclass(frozen=True)
class Ruling:
    """What a rule decided: an ``error_type`` with its message, or a score."""

    error_type: ErrorType | None = None
    error: str | None = None
    score: float = 0.0
    passed: bool = False
    cases: tuple[CaseResult, ...] = ()
    reward_components: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


def read(evidence: Evidence) -> Facts:
    """Parse the report, if there was a verifier to send one."""
    if evidence.verifier is None or (evidence.report is None and not evidence.report_overflow):
        return Facts(evidence, None, None)
    if evidence.report is None or evidence.report_overflow:
        return Facts(evidence, None, ReportError("malformed", "the report was too long"))
    try:
        return Facts(evidence, parse_report(evidence.report), None)
    except ReportError as error:
        return Facts(evidence, None, error)


@functools.lru_cache(maxsize=1024)
def _passed(name: str) -> CaseResult:
    # Most cases of most runs: building them anew would cost more than judging the run does.
    return CaseResult(name=name, passed=True, score=1.0, outcome="passed")


def _case_result(case: CaseFact) -> CaseResult:
    passed = case.outcome == "passed"
    if passed and not case.message and case.execution_time_ms is None:
        return _passed(case.name)
    return CaseResult(
        name=case.name,
        passed=passed,
        score=1.0 if passed else 0.0,
        outcome=case.outcome,
        message=case.message,
        execution_time_ms=case.execution_time_ms,
    )


def result(facts: Facts, ruling: Ruling) -> RunResult:
    """The result that says what was ruled, with what was seen beside it."""
    evidence, solution, verifier = facts.evidence, facts.evidence.solution, facts.evidence.verifier
    seed = facts.report.seed if facts.report is not None else None
    exit_code = None if verifier is None else verifier.exit_code
    if ruling.error_type in MODEL_FAULT_ERRORS and exit_code == 2:
        exit_code = None  # a verifier that lost its sandbox to the answer didn't give up by itself
    return RunResult(
        score=ruling.score,
        passed=ruling.passed,
        output=evidence.output,
        stderr="\n".join(text for text in (evidence.stderr, evidence.verifier_stderr) if text),
        exit_code=exit_code,
        solution_exit=solution.exit_code if solution.signal is None else -solution.signal,
        execution_time_ms=evidence.execution_time_ms,
        sandbox_id=evidence.sandbox_id,
        isolation=evidence.isolation,
        enforced=evidence.enforced,
        limit_scale=evidence.limit_scale,
        reward_components=ruling.reward_components,
        metrics=ruling.metrics,
        details=ruling.details,
        cases=ruling.cases or tuple(map(_case_result, evidence.cases or ())),
        seed=evidence.seed if seed is None else seed,
        truncated=evidence.truncated,
        error_type=ruling.error_type,
        error=ruling.error,
        timings=evidence.timings,
        run_id=evidence.run_id,
        env_name=evidence.env_name,
        env_digest=evidence.env_digest,
        answer_sha256=evidence.answer_sha256,
    )


TAKEN: dict[str, ErrorType] = {
    "evicted": "provider_error",
    "expired": "sandbox_error",
    "unreachable": "network_error",
}
_KNOWN: dict[str, ErrorType] = {name: name for name in get_args(ErrorType)}
_FAILURES: dict[str, ErrorType] = {
    "provider": "provider_error",
    "network": "network_error",
    "supervisor": "sandbox_error",
    "zygote": "sandbox_error",
    "deadline": "deadline",
    "cancelled": "cancelled",
}


def killed_its_zygote(facts: Facts) -> Ruling:
    """The answer's 0: it took its zygote down once with others and once alone."""
    return Ruling(
        "policy_sandbox_failure", "the sandbox's zygote died with this run, and again with it alone"
    )


def our_failure(facts: Facts) -> Ruling:
    """No verdict: a failure of ours, certain by where it was caught."""
    failure = facts.evidence.failure
    assert failure is not None
    return Ruling(_FAILURES[failure.kind], failure.message or f"{failure.kind} failure")


def taken(facts: Facts) -> Ruling:
    """No verdict: the control plane says that it took the sandbox away."""
    fates = (side.fate for side in facts.sides.values() if side.fate is not None)
    fate = next(fate for fate in fates if fate.source == "control_plane" and fate.kind in TAKEN)
    return Ruling(TAKEN[fate.kind], fate.message or f"the sandbox was {fate.kind}")


def gave_up(facts: Facts) -> Ruling:
    """No verdict: the verifier says that it failed."""
    reported = facts.report.error if facts.report is not None else None
    return Ruling("verifier_error", _with_stderr(facts, reported or "the verifier exited 2"))


def _clock_message(facts: Facts) -> str:
    return f"the {facts.evidence.clock} limit was exceeded"


def timed_out_before(facts: Facts) -> Ruling:
    """No verdict: time ran out on our own set-up."""
    return Ruling("timeout", f"{_clock_message(facts)} before the answer came into play")


def broken_before(facts: Facts) -> Ruling:
    """No verdict: the sandbox failed before it held anything of the answer."""
    return Ruling("sandbox_error", f"before the answer came into play, {_breakage(facts)}")


def verifier_failed_before(facts: Facts) -> Ruling:
    """No verdict: whatever the verifier did, it did without the answer."""
    report, error = facts.report, facts.report_error
    if error is not None and error.kind == "invalid_score":
        return Ruling("invalid_score", error.message)
    if report is not None and report.error_type is not None and report.error_type not in MODEL_FAULT_ERRORS:
        return said_why(facts)
    why = _crash(facts) or report_problem(facts) or "the verifier reported a result"
    return Ruling("verifier_error", _with_stderr(facts, f"before the answer came into play, {why}"))


def broken(facts: Facts) -> Ruling:
    """The answer's 0: its sandbox ended under it."""
    return Ruling("policy_sandbox_failure", _breakage(facts))


def timed_out(facts: Facts) -> Ruling:
    """The answer's 0: it, or the handling of what it gave, took too long."""
    return Ruling("solution_timeout", _clock_message(facts))


def flooded(facts: Facts) -> Ruling:
    """The answer's 0: it wrote more than its channel may carry."""
    return Ruling("solution_error", _clock_message(facts))


def died(facts: Facts) -> Ruling:
    """The answer's 0: it ended, or stopped making sense, while a reply was owed."""
    fault = facts.evidence.details.get("fault")
    return Ruling("solution_error", fault if isinstance(fault, str) else _breakage(facts))


def crashed(facts: Facts) -> Ruling:
    """The answer's 0: the verifier crashed on it. What was reported before isn't kept."""
    return Ruling("solution_error", _with_stderr(facts, _crash(facts)))


def unusable(facts: Facts) -> Ruling:
    """The answer's 0: the verifier reported nothing, too much, or what it may not."""
    return Ruling("solution_error", report_problem(facts))


def said_why(facts: Facts) -> Ruling:
    """The verifier's own error type: the answer's 0 if a model fault, else no verdict."""
    report = facts.report
    assert report is not None
    return Ruling(
        _KNOWN.get(str(report.error_type), "other"),
        report.error or f"the verifier reported {report.error_type}",
        cases=report.cases,
        reward_components=report.reward_components,
        metrics=report.metrics,
        details=report.details,
    )


def compared(facts: Facts) -> Ruling:
    """The weight of the passed cases over the weight of all."""
    cases = facts.evidence.cases
    assert cases is not None
    if all(case.outcome == "passed" for case in cases):
        return Ruling(score=1.0, passed=True)
    earned = math.fsum(case.weight for case in cases if case.outcome == "passed")
    total = math.fsum(case.weight for case in cases)
    return Ruling(score=earned / total if total else 0.0)


def reported(facts: Facts) -> Ruling:
    """The verifier's score; its exit status says whether that is a pass."""
    report, verifier = facts.report, facts.evidence.verifier
    assert report is not None
    assert verifier is not None
    return Ruling(
        score=report.score,
        passed=verifier.exit_code == 0,
        cases=report.cases,
        reward_components=report.reward_components,
        metrics=report.metrics,
        details=report.details,
    )


def nothing_to_judge_by(facts: Facts) -> Ruling:
    """The answer's 0: it was in play, and no way out of that is free."""
    return Ruling("solution_error", "the run ended and no case was answered")


def _breakage(facts: Facts) -> str:
    for name, side in facts.sides.items():
        if side.fate is not None:
            return f"the {name}'s sandbox {side.fate.kind}: {side.fate.message or 'no more is known'}"
        if side.setup_error is not None:
            return f"the {name}'s sandbox couldn't be set up: {side.setup_error}"
        if side.oom:
            return f"the {name}'s process ran out of memory"
        if side.signal is not None:
            return f"the {name}'s process was ended by signal {side.signal}"
    exit_code = facts.evidence.solution.exit_code
    return "the solution's process ended early" + ("" if exit_code is None else f" with status {exit_code}")


def _crash(facts: Facts) -> str | None:
    verifier = facts.evidence.verifier
    if verifier is None or verifier.exit_code in (0, 1):
        return None
    if verifier.exit_code is not None:
        return f"the verifier crashed with status {verifier.exit_code}"
    if verifier.signal is not None:
        return f"the verifier was ended by signal {verifier.signal}"
    return "the verifier didn't end by itself"


def report_problem(facts: Facts) -> str | None:
    """Why the report can't be used, or ``None`` if it can."""
    report, verifier = facts.report, facts.evidence.verifier
    if facts.report_error is not None:
        return facts.report_error.message
    if report is None:
        return "the verifier reported nothing"
    if verifier is not None and report.passed is not None and report.passed != (verifier.exit_code == 0):
        return f"the verifier exited {verifier.exit_code} but reported passed: {str(report.passed).lower()}"
    return None


def _with_stderr(facts: Facts, message: str | None) -> str:
    lines = facts.evidence.verifier_stderr.strip().splitlines()
    return f"{message}: {lines[-1]}" if lines else f"{message}"
