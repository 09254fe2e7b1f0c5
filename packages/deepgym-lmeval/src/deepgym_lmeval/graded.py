"""One graded run as lm-eval carries it: from the filter to the metrics, and as JSON into the sample log."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from deepgym.bounded import MAX_LINE, clean, is_share
from deepgym.models import ERROR_TYPES, MODEL_FAULT_ERRORS

if TYPE_CHECKING:
    from deepgym.models import RunResult

__all__ = ["Graded"]


@dataclass(frozen=True)
class Graded:
    """A run: its score, or ``None`` where it has no verdict. ``str`` of it is one line of JSON."""

    score: float | None
    passed: bool
    error_type: str | None = None
    error: str | None = None
    answer_sha256: str = ""
    isolation: str | None = None

    @property
    def has_verdict(self) -> bool:
        """Whether the answer was judged."""
        return self.score is not None

    def __str__(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def of(cls, result: RunResult) -> Graded:
        """What of ``result`` a sample keeps."""
        return cls(
            score=result.reward,
            passed=result.passed and result.has_verdict,
            error_type=result.error_type,
            error=result.error,
            answer_sha256=result.answer_sha256,
            isolation=result.isolation,
        )

    @classmethod
    def parse(cls, text: object) -> Graded | None:
        """What ``str`` wrote; ``None`` for anything else, which a log may hold."""
        if not isinstance(text, str) or not text.startswith("{"):
            return None
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict) or not {"score", "passed"} <= fields.keys() <= _FIELDS:
            return None
        score, error_type = fields["score"], fields.get("error_type")
        of_text = all(isinstance(fields.get(name), (str, type(None))) for name in ("error_type", *_TEXTS))
        if not of_text or not isinstance(fields["passed"], bool):
            return None
        if not _is_consistent(score, fields["passed"], error_type):
            return None
        texts = {name: clean(fields[name], MAX_LINE) for name in _TEXTS if fields.get(name) is not None}
        return cls(**{**fields, **texts, "score": None if score is None else float(score)})


def _is_consistent(score: object, passed: bool, error_type: str | None) -> bool:
    """Whether a result may be so: a model fault earns nothing, and what has no verdict has no score."""
    if error_type is None:
        return is_share(score)
    if error_type in MODEL_FAULT_ERRORS:
        return score == 0 and is_share(score) and not passed
    return error_type in ERROR_TYPES and score is None and not passed


_FIELDS = frozenset(Graded.__dataclass_fields__)
_TEXTS = ("error", "answer_sha256", "isolation")
