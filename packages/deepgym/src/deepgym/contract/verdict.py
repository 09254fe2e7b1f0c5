"""From a run's evidence to its result: the only place that decides whose fault a failure was.

``RULES`` is read from the top, and the first rule that holds decides. Its order is the contract: what is
certainly ours; then what happened before the answer came into play, which is ours as well; then what
happened after, which is the answer's own 0; then what the judge measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deepgym.contract import rulings
from deepgym.contract.evidence import Evidence
from deepgym.contract.rulings import Facts, Ruling
from deepgym.models import RunResult

__all__ = ["RULES", "Rule", "judge"]


def judge(evidence: Evidence) -> RunResult:
    """The result of the run that ``evidence`` is about. Pure; never raises for what a run did.

    Without a verdict the result has an ``error_type`` that isn't a model fault; with a model fault its
    score is 0. What a verifier reported is kept only if nothing went wrong besides.
    """
    facts = rulings.read(evidence)
    rule = next(rule for rule in RULES if rule.holds(facts))
    return rulings.result(facts, rule.ruling(facts))


class Rule(NamedTuple):
    """One row: when it holds, and what it makes of the run."""

    name: str
    holds: Callable[[Facts], bool]
    ruling: Callable[[Facts], Ruling]


# When a rule holds.


def _zygote_died_again(facts: Facts) -> bool:
    failure = facts.evidence.failure
    return failure is not None and failure.kind == "zygote_again"


def _failed_on_our_side(facts: Facts) -> bool:
    return facts.evidence.failure is not None


def _taken_by_control_plane(facts: Facts) -> bool:
    return any(
        side.fate is not None and side.fate.source == "control_plane" and side.fate.kind in rulings.TAKEN
        for side in facts.sides.values()
    )


def _verifier_gave_up(facts: Facts) -> bool:
    verifier = facts.evidence.verifier
    return verifier is not None and verifier.exit_code == 2


def _clock_before_play(facts: Facts) -> bool:
    return not facts.evidence.in_play and facts.evidence.clock is not None


def _sandbox_before_play(facts: Facts) -> bool:
    evidence = facts.evidence
    return not evidence.in_play and (evidence.verifier is None or evidence.solution_died or _any_broke(facts))


def _any_broke(facts: Facts) -> bool:
    if facts.evidence.solution.signal is not None:
        return True
    return any(
        side.fate is not None or side.setup_error is not None or side.oom for side in facts.sides.values()
    )


def _anything_before_play(facts: Facts) -> bool:
    return not facts.evidence.in_play


def _sandbox_broke(facts: Facts) -> bool:
    return any(side.fate is not None or side.setup_error is not None for side in facts.sides.values())


def _output_flooded(facts: Facts) -> bool:
    return facts.evidence.clock == "output"


def _time_ran_out(facts: Facts) -> bool:
    return facts.evidence.clock is not None


def _solution_died(facts: Facts) -> bool:
    return facts.evidence.solution_died


def _verifier_crashed(facts: Facts) -> bool:
    verifier = facts.evidence.verifier
    return verifier is not None and verifier.exit_code not in (0, 1)


def _verifier_said_why(facts: Facts) -> bool:
    return facts.report is not None and facts.report.error_type is not None


def _report_is_unusable(facts: Facts) -> bool:
    return facts.evidence.verifier is not None and rulings.report_problem(facts) is not None


def _cases_were_compared(facts: Facts) -> bool:
    return facts.evidence.verifier is None and bool(facts.evidence.cases)


def _verifier_reported(facts: Facts) -> bool:
    return facts.report is not None


def _always(facts: Facts) -> bool:
    return True


#: First match wins.
RULES: tuple[Rule, ...] = (
    # Certainly ours, at any phase; or the one failure of ours that an answer brought about twice.
    Rule("zygote died again", _zygote_died_again, rulings.killed_its_zygote),
    Rule("failure on our side", _failed_on_our_side, rulings.our_failure),
    Rule("taken by the control plane", _taken_by_control_plane, rulings.taken),
    Rule("verifier exited 2", _verifier_gave_up, rulings.gave_up),
    # Before the answer came into play: no verdict, whatever it was.
    Rule("limit before play", _clock_before_play, rulings.timed_out_before),
    Rule("sandbox before play", _sandbox_before_play, rulings.broken_before),
    Rule("verifier before play", _anything_before_play, rulings.verifier_failed_before),
    # After it: the answer's own 0.
    Rule("sandbox broke", _sandbox_broke, rulings.broken),
    Rule("output limit", _output_flooded, rulings.flooded),
    Rule("time limit", _time_ran_out, rulings.timed_out),
    Rule("solution died", _solution_died, rulings.died),
    Rule("verifier crashed", _verifier_crashed, rulings.crashed),
    # The verifier's own word for a failure, its own or the answer's.
    Rule("verifier said why", _verifier_said_why, rulings.said_why),
    Rule("report unusable", _report_is_unusable, rulings.unusable),
    # Nothing went wrong: a score.
    Rule("declared cases", _cases_were_compared, rulings.compared),
    Rule("verifier's report", _verifier_reported, rulings.reported),
    Rule("nothing to judge by", _always, rulings.nothing_to_judge_by),
)
