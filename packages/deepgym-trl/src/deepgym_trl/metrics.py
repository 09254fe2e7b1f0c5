"""What a batch's results look like in the trainer's log: the same keys at every call and on every rank.

TRL averages a key over calls, ranks and the logging window. Before 1.14 a key that one rank logs alone
hangs the run, so everything here is logged always. A mean over judged runs is NaN, which TRL logs as no
value, where a rank judged none; TRL's own ``rewards/<name>/mean`` is taken over all ranks at once and has
no such gap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from deepgym.models import ERROR_TYPES, MODEL_FAULT_ERRORS, BatchResult, RunResult

__all__ = ["NO_VERDICT_ERRORS", "LogExtra", "LogMetric", "groups_lost", "log_batch"]

LogMetric: TypeAlias = Callable[[str, float], None]
LogExtra: TypeAlias = Callable[[str, list[Any]], None]

#: The error types that mean no verdict, in a fixed order.
NO_VERDICT_ERRORS: tuple[str, ...] = tuple(sorted(ERROR_TYPES - MODEL_FAULT_ERRORS))


def log_batch(
    batch: BatchResult,
    prompts: Sequence[Any],
    seconds: float,
    log_metric: LogMetric | None,
    log_extra: LogExtra | None,
) -> None:
    """Log the metrics ``deepgym/...`` and the columns ``deepgym_...`` of one call."""
    if log_metric is not None:
        for name, values in _metrics(batch, prompts, seconds).items():
            for value in values:
                log_metric(f"deepgym/{name}", value)
    if log_extra is not None:
        for name, column in _columns(batch.results).items():
            log_extra(f"deepgym_{name}", column)


def _metrics(batch: BatchResult, prompts: Sequence[Any], seconds: float) -> dict[str, Sequence[float]]:
    """One value for the call, or one for each judged run: TRL weights a mean by how many values there are."""
    results = batch.results
    judged = [result for result in results if result.has_verdict]
    times = sorted(result.timings.get("total", 0.0) / 1000.0 for result in results)
    kinds = [str(result.error_type or "other") for result in results if not result.has_verdict]
    return {
        "verdict_rate": [_share(len(judged), len(results))],
        "judged_mean_score": [result.score for result in judged] or [math.nan],
        "judged_pass_rate": [float(result.passed) for result in judged] or [math.nan],
        "model_fault_rate": [_share(sum(r.error_type is not None for r in judged), len(results))],
        **{f"no_verdict/{kind}": [_share(kinds.count(kind), len(results))] for kind in NO_VERDICT_ERRORS},
        "latency_p50_s": [_quantile(times, 0.5)],
        "latency_p95_s": [_quantile(times, 0.95)],
        "latency_max_s": [_quantile(times, 1.0)],
        "batch_s": [seconds],
        "groups_lost": [groups_lost(prompts, [result.has_verdict for result in results])],
        "samples": [float(len(results))],
    }


def _columns(results: Sequence[RunResult]) -> dict[str, list[Any]]:
    return {
        "env": [result.env_name for result in results],
        "verdict": [_word(result) for result in results],
        "score": [result.score if result.has_verdict else math.nan for result in results],
        "error": [result.error_type or "" for result in results],
        "run_id": [result.run_id for result in results],
    }


def _word(result: RunResult) -> str:
    if not result.has_verdict:
        return "none"
    return "passed" if result.passed else "failed"


def groups_lost(prompts: Sequence[Any], judged: Sequence[bool]) -> float:
    """Share of the call's groups (neighbours with one prompt) that have fewer than two judged rows: nothing
    is learnt from those. A group that is split over ranks counts once on each.
    """
    groups = [
        [kept for _, kept in group]
        for _, group in itertools.groupby(zip(prompts, judged, strict=True), key=lambda pair: pair[0])
    ]
    return _share(sum(sum(group) < 2 for group in groups), len(groups))


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
