"""What verl is told of a sample beside its reward: the same keys, in the same order, for every sample.

The legacy trainer reads the keys from a batch's first sample and looks them up in all others.
"""

from __future__ import annotations

from typing import Any

from deepgym.models import RunResult

__all__ = ["KEYS", "info_of", "lost_info"]

#: ``score`` and ``passed`` are the verdict's; ``acc`` is what verl counts as right; ``error`` is 1 where
#: there is no verdict, ``model_fault`` where the answer's own failure earned its 0; ``seconds`` is what
#: grading took, waiting among it; ``steps`` are an episode's.
KEYS = ("score", "acc", "passed", "error", "model_fault", "seconds", "steps")


def info_of(result: RunResult, seconds: float, steps: int = 0) -> dict[str, Any]:
    """All ``KEYS`` of a run; zeros and ``error`` 1.0 where it has no verdict."""
    judged = result.has_verdict
    passed = float(judged and result.passed)
    fault = float(judged and result.error_type is not None)
    values = (
        result.score if judged else 0.0,
        passed,
        passed,
        float(not judged),
        fault,
        seconds,
        float(steps),
    )
    return dict(zip(KEYS, values, strict=True))


def lost_info(seconds: float, steps: int = 0) -> dict[str, Any]:
    """All ``KEYS`` of a run without a verdict, for the validation of a v1 that leaves out ``None``."""
    return {
        **dict.fromkeys(KEYS),
        "error": 1.0,
        "seconds": seconds,
        "steps": float(steps),
    }
