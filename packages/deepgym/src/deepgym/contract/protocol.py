"""Verifier protocol v1: the one report that a verifier program sends about a run.

A report is one line of strict JSON, an object with these members and no others:

    score              number in [0, 1]; may be left out beside error_type
    passed             bool; left out or null, the exit status tells
    cases              [{"name": str, "passed": bool, "score"?: number in [0, 1], "message"?: str}]
    reward_components  {str: finite number}
    metrics            {str: finite number}
    details            {str: any JSON}
    seed               int
    error_type         str: the verifier's own word for why the answer, or it itself, failed
    error              str: the message that goes with it

Exit status 0 says passed, 1 failed, 2 that the verifier failed; anything else is a crash.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from deepgym.bounded import is_share
from deepgym.models import CaseResult
from deepgym.sandboxed import wire

__all__ = ["MAX_REPORT", "Report", "ReportError", "parse_report"]

#: Bytes that a report may have.
MAX_REPORT = 1 << 20

_MAX_DEPTH = 32
_MAX_CASES = 10_000
_MAX_NUMBERS = 1000
_MAX_MESSAGE = 2000
_MAX_NAME = 200
_MEMBERS = frozenset(
    ("score", "passed", "cases", "reward_components", "metrics", "details", "seed", "error_type", "error")
)
_CASE_MEMBERS = frozenset(("name", "passed", "score", "message"))
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NESTING = re.compile(rb"[\[{\]}]")


class ReportError(ValueError):
    """A report that can't be used. ``kind`` is ``invalid_score`` if only its score is at fault."""

    def __init__(self, kind: Literal["invalid_score", "malformed"], message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Report:
    """A report that keeps the protocol. ``passed`` is ``None`` where the exit status tells."""

    score: float = 0.0
    passed: bool | None = None
    cases: tuple[CaseResult, ...] = ()
    reward_components: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    error_type: str | None = None
    error: str | None = None


def parse_report(raw: bytes) -> Report:
    """Read the bytes that came over a verifier's report channel.

    Raises:
        ReportError: they aren't exactly one report. Nothing of a report that breaks a rule is kept.
    """
    body = _decode(_one_line(raw))
    if type(body) is not dict:
        raise _malformed(f"a report is an object, not {type(body).__name__}")
    error_type = _text(body, "error_type", _MAX_NAME)
    score = _score(body, required=not error_type)
    unknown = sorted(body.keys() - _MEMBERS)
    if unknown:
        raise _malformed(f"unknown member {unknown[0]!r:.80} in the report")
    passed = body.get("passed")
    if passed is not None and type(passed) is not bool:
        raise _malformed(f"passed is true or false, not {passed!r:.80}")
    return Report(
        score=score,
        passed=passed,
        cases=_cases(body.get("cases")),
        reward_components=_numbers(body, "reward_components"),
        metrics=_numbers(body, "metrics"),
        details=_details(body),
        seed=_seed(body),
        error_type=error_type or None,
        error=_text(body, "error", _MAX_MESSAGE),
    )


def _malformed(message: str) -> ReportError:
    return ReportError("malformed", message)


def _one_line(raw: bytes) -> bytes:
    if len(raw) > MAX_REPORT:
        raise _malformed(f"the report is longer than {MAX_REPORT} bytes")
    line = raw.strip(b" \t\r\n")
    if not line:
        raise _malformed("the report is empty")
    if b"\n" in line:
        raise _malformed("more than one line was reported")
    if line.count(b"[") + line.count(b"{") > _MAX_DEPTH and _depth(line) > _MAX_DEPTH:
        raise _malformed(f"the report is nested deeper than {_MAX_DEPTH} levels")
    return line


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for match in _NESTING.finditer(_STRING.sub(b"", line)):
        depth += 1 if match.group() in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _decode(line: bytes) -> Any:
    try:
        return wire.decode(line)
    except ValueError as error:
        raise _explained(line, wire.clean(str(error), 200)) from None


def _explained(line: bytes, message: str) -> ReportError:
    # Python's own reader lets NaN and infinities through, and so tells a bad score from other trouble.
    try:
        body = json.loads(line, object_pairs_hook=_unique)
    except ValueError:
        return _malformed(message)
    if isinstance(body, dict) and isinstance(body.get("score"), float) and not is_share(body["score"]):
        return ReportError("invalid_score", f"score is {body['score']!r}, not a number in [0, 1]")
    return _malformed(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _score(body: dict[str, Any], *, required: bool) -> float:
    score = body.get("score")
    if score is None and not required:
        return 0.0
    if not is_share(score):
        shown = "missing" if "score" not in body else f"{score!r:.80}"
        raise ReportError("invalid_score", f"score is {shown}, not a number in [0, 1]")
    return float(body["score"])


def _text(body: dict[str, Any], name: str, limit: int) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not str:
        raise _malformed(f"{name} is text, not {value!r:.80}")
    return wire.clean(value, limit)


def _numbers(body: dict[str, Any], name: str) -> dict[str, float]:
    value = body.get(name)
    if value is None:
        return {}
    if type(value) is not dict or len(value) > _MAX_NUMBERS:
        raise _malformed(f"{name} is an object of at most {_MAX_NUMBERS} numbers")
    numbers = {}
    for key, number in value.items():
        if type(number) not in (int, float) or not -1e300 < number < 1e300:
            raise _malformed(f"{name}[{key!r:.80}] is not a number: {number!r:.80}")
        numbers[wire.clean(key, _MAX_NAME)] = float(number)
    return numbers


def _details(body: dict[str, Any]) -> dict[str, Any]:
    value = body.get("details")
    if value is None:
        return {}
    if type(value) is not dict:
        raise _malformed("details is an object")
    return value


def _seed(body: dict[str, Any]) -> int | None:
    value = body.get("seed")
    if value is None:
        return None
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise _malformed(f"seed is a 64-bit integer, not {value!r:.80}")
    return value


def _cases(value: object) -> tuple[CaseResult, ...]:
    if value is None:
        return ()
    if type(value) is not list or len(value) > _MAX_CASES:
        raise _malformed(f"cases is a list of at most {_MAX_CASES} objects")
    return tuple(_case(case, index) for index, case in enumerate(value))


def _case(case: object, index: int) -> CaseResult:
    if type(case) is not dict or not case.keys() <= _CASE_MEMBERS:
        raise _malformed(f"cases[{index}] is an object of {', '.join(sorted(_CASE_MEMBERS))}")
    passed = case.get("passed")
    if type(passed) is not bool:
        raise _malformed(f"cases[{index}].passed is true or false")
    score = case.get("score")
    if score is None:
        score = 1.0 if passed else 0.0
    if not is_share(score):
        raise ReportError("invalid_score", f"cases[{index}].score is {score!r:.80}, not a number in [0, 1]")
    return CaseResult(
        name=_text(case, "name", _MAX_NAME) or "",
        passed=passed,
        score=float(score),
        outcome="passed" if passed else "wrong",
        message=_text(case, "message", _MAX_MESSAGE) or "",
    )
