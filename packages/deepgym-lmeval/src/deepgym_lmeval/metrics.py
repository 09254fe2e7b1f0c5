"""What lm-eval reports of a task.

``deepgym_verdict`` is the share of runs that were judged; ``deepgym_score`` and ``deepgym_pass`` are means
over the judged ones alone. Beside them stand the numbers of runs with a verdict and without.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean
from typing import Any

from .graded import Graded

__all__ = [
    "JUDGED",
    "NO_VERDICT",
    "PASS",
    "SCORE",
    "SHARE",
    "VERDICT",
    "Breakdown",
    "metric_names",
    "of_document",
    "pass_at",
]

logger = logging.getLogger(__name__)

VERDICT, SCORE, PASS = "deepgym_verdict", "deepgym_score", "deepgym_pass"
JUDGED, NO_VERDICT = "deepgym_judged", "deepgym_no_verdict"
#: Below this share of judged runs the scores are about too few of them to stand without a word.
SHARE = 0.95


def pass_at(k: int) -> str:
    """The name of pass@k."""
    return f"{PASS}@{k}"


def metric_names(k: int | None = None) -> list[str]:
    """All metrics, in the order in which each document gives them."""
    return [VERDICT, SCORE, PASS, *([pass_at(k)] if k else []), JUDGED, NO_VERDICT]


def of_document(graded: Sequence[Graded], k: int | None = None, every_key: bool = False) -> dict[str, Any]:
    """The metrics of one document's runs, of which there is at least one.

    What no run could be judged for is left out; with ``every_key`` it is ``None`` instead, because lm-eval
    gathers several ranks' metrics key by key. pass@k is the unbiased estimate over the judged runs, and
    missing where there are fewer than k.
    """
    judged = [run for run in graded if run.score is not None]
    passed = sum(run.passed for run in judged)
    found: dict[str, Any] = dict.fromkeys(metric_names(k))
    found[VERDICT] = len(judged) / len(graded)
    found[JUDGED] = len(judged)
    found[NO_VERDICT] = dict(Counter(run.error_type or "other" for run in graded if run.score is None))
    if judged:
        found[SCORE] = fmean(run.score or 0.0 for run in judged)
        found[PASS] = passed / len(judged)
    if k and len(judged) >= k:
        found[pass_at(k)] = 1.0 - comb(len(judged) - passed, k) / comb(len(judged), k)
    return found if every_key else {name: value for name, value in found.items() if value is not None}


class Breakdown:
    """Aggregation of ``deepgym_no_verdict``: how many runs have none, said aloud if they are many."""

    def __init__(self, task: str, repeats: int) -> None:
        self._task, self._repeats = task, repeats
        self.found: dict[str, Any] | None = None
        """``runs``, ``judged`` and ``no_verdict`` by error type, of all ranks; ``None`` until then."""

    def __call__(self, documents: Sequence[Mapping[str, int]]) -> int:
        errors: Counter[str] = Counter()
        for document in documents:
            errors.update(document)
        runs, none = len(documents) * self._repeats, errors.total()
        self.found = {"runs": runs, "judged": runs - none, "no_verdict": dict(errors.most_common())}
        if runs - none < SHARE * runs:
            logger.error(
                "%s: ONLY %d of %d runs (%.1f %%) were judged, and the scores are of these alone. The others "
                "have no verdict, by no fault of the answers: %s. Judge them again: deepgym lm-eval regrade",
                self._task,
                runs - none,
                runs,
                100 * (runs - none) / runs,
                ", ".join(f"{number} {error}" for error, number in errors.most_common()),
            )
        elif none:
            logger.warning("%s: %d of %d runs have no verdict: %s", self._task, none, runs, dict(errors))
        return none
