"""What must hold of every run and every batch, whatever broke; and the count of how often it was looked at."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from deepgym.contract.groups import group_advantages
from deepgym.models import MODEL_FAULT_ERRORS, BatchResult, RunResult

__all__ = ["LAWS_OF_A_RUN", "Expected", "Ledger", "check_batch"]

GROUP = 8
LAWS_OF_A_RUN = 7


@dataclass
class Ledger:
    """What was broken, and which laws were looked at."""

    struck: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    broken: list[str] = field(default_factory=list)
    where: str = ""

    def law(self, holds: bool, name: str, seen: object = "") -> None:
        """One law about one run or batch."""
        self.checks += 1
        if not holds:
            self.broken.append(f"{self.where}: {name}: {seen}"[:600])


@dataclass(frozen=True)
class Expected:
    """What must become of one answer: ``outcomes`` as in the table of cells, and its score where nothing breaks."""

    text: bytes
    score: float
    outcomes: frozenset[str] = frozenset({"true"})
    errors: frozenset[str] = frozenset()
    note: str = ""

    @property
    def reward(self) -> float | None:
        """The one reward that it can get; NaN if several are right."""
        rewards = {"true": self.score, "none": None, "zero": 0.0}
        found = {rewards.get(outcome, math.nan) for outcome in self.outcomes}
        return found.pop() if len(found) == 1 else math.nan

    def holds(self, result: RunResult) -> bool:
        return any(getattr(self, f"_{outcome}")(result) for outcome in self.outcomes)

    def _true(self, result: RunResult) -> bool:
        return result.has_verdict and result.error_type is None and result.score == self.score

    def _none(self, result: RunResult) -> bool:
        return not result.has_verdict and result.error_type is not None

    def _zero(self, result: RunResult) -> bool:
        allowed = self.errors or MODEL_FAULT_ERRORS
        return (
            result.has_verdict and result.score == 0.0 and not result.passed and result.error_type in allowed
        )

    def _verdict(self, result: RunResult) -> bool:
        return result.has_verdict and result.score <= self.score


def check_run(ledger: Ledger, index: int, expected: Expected, result: RunResult) -> None:
    seen = (
        index,
        expected.note,
        result.error_type,
        result.error,
        result.score,
        result.solution_exit,
        result.exit_code,
    )
    own = hashlib.sha256(expected.text).hexdigest()
    ledger.law(result.answer_sha256 == own, "result i belongs to answer i", seen)
    ledger.law(expected.holds(result), f"a run is {sorted(expected.outcomes)} of {expected.score}", seen)
    ledger.law(result.score <= expected.score, "no fault pays", seen)
    ledger.law((result.reward is None) == (not result.has_verdict), "no verdict is no reward", seen)
    ledger.law(
        (result.error_type in MODEL_FAULT_ERRORS) <= (result.score == 0.0 and not result.passed),
        "a model fault scores 0",
        seen,
    )
    again = RunResult.model_validate_json(result.model_dump_json())
    ledger.law(again == result, "a result survives its own JSON", seen)


def check_batch(ledger: Ledger, expected: Sequence[Expected], batch: BatchResult) -> None:
    """Every law about a batch and the runs in it."""
    results = batch.results
    ledger.law(len(results) == len(expected), "nothing is lost", (len(results), len(expected)))
    for index, (one, result) in enumerate(zip(expected, results, strict=False)):
        check_run(ledger, index, one, result)
    true = [one.score for one in expected]
    total = len(expected)
    ledger.law(batch.passed <= sum(score == 1.0 for score in true), "passed never rises", batch.passed)
    ledger.law(batch.avg_score <= sum(true) / total + 1e-12, "avg_score never rises", batch.avg_score)
    ledger.law(batch.pass_rate <= sum(score == 1.0 for score in true) / total, "pass_rate never rises")
    ledger.law(batch.passed + batch.failed == total, "every run counts once")
    ledger.law(batch.judged_count + batch.no_verdict_count == total, "every run is judged or not")
    for start in range(0, total, GROUP):
        _check_group(ledger, start, expected[start : start + GROUP], batch.rewards[start : start + GROUP])


def _check_group(
    ledger: Ledger, start: int, expected: Sequence[Expected], rewards: Sequence[float | None]
) -> None:
    """Siblings get what they would get in a group without those that have no verdict."""
    wanted = [
        reward if isinstance(one.reward, float) and math.isnan(one.reward) else one.reward
        for one, reward in zip(expected, rewards, strict=True)
    ]
    without = iter(group_advantages([reward for reward in wanted if reward is not None]))
    alone = [None if reward is None else next(without) for reward in wanted]
    for offset, (advantage, right) in enumerate(zip(group_advantages(list(rewards)), alone, strict=True)):
        ledger.law(advantage == right, "siblings' advantages don't move", (start + offset, advantage, right))
