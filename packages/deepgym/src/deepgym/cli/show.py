"""What is printed. Text that a policy wrote can't move the cursor, colour or clear the terminal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from deepgym.models import BatchResult, RunResult

__all__ = ["batch", "document", "line", "run", "safe", "status", "totals"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_KEPT = 2000
_CASES = 10


def document(value: BaseModel | list[Any] | dict[str, Any]) -> None:
    """One line of JSON, in ASCII, on standard output. A result loads back from it."""
    plain = value if isinstance(value, (list, dict)) else value.model_dump(mode="json")
    typer.echo(json.dumps(plain, allow_nan=False))


def safe(text: str) -> str:
    """``text`` with control characters shown as escapes; newlines and tabs stay."""
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def status(result: RunResult) -> str:
    """``PASSED``, ``FAILED``, or without a verdict ``ERROR (<error_type>)``; coloured on a terminal."""
    if not result.has_verdict:
        return typer.style(f"ERROR ({result.error_type or 'verifier_error'})", fg=typer.colors.YELLOW)
    if result.passed:
        return typer.style("PASSED", fg=typer.colors.GREEN)
    return typer.style("FAILED", fg=typer.colors.RED)


def run(result: RunResult) -> None:
    """One run: its verdict, what failed, and what it printed."""
    typer.echo(line(result))
    failed = [(number, case) for number, case in enumerate(result.cases) if case.outcome != "passed"]
    for number, case in failed[:_CASES]:
        message = f": {_first_line(case.message)}" if case.message else ""
        typer.echo(f"  case {safe(case.name) or number} {case.outcome}{message}")
    if len(failed) > _CASES:
        typer.echo(f"  and {len(failed) - _CASES} more cases")
    for name, text in (("stdout", result.output), ("stderr", result.stderr)):
        if text.strip():
            typer.echo(f"--- {name}\n{safe(_end(text))}")


def batch(labels: list[str], results: BatchResult) -> None:
    """A line for each run, then the totals."""
    width = min(max((len(label) for label in labels), default=0), 60)
    for label, result in zip(labels, results.results, strict=False):
        typer.echo(f"{safe(label):<{width}}  {line(result)}")
    totals(results)


def totals(results: BatchResult) -> None:
    """Headline and judged numbers, as on the contract page."""
    counts = f"{results.passed} of {results.total} passed, {results.no_verdict_count} without a verdict"
    typer.echo(f"{results.totals_line}\nMean score: {results.avg_score:.4f}; {counts}")


def line(result: RunResult) -> str:
    """The verdict in one line: score and fault, or why there is none."""
    cause = f"{_first_line(result.error)}" if result.error else ""
    if not result.has_verdict:
        return f"{status(result)}: {cause or 'no cause was reported'}"
    fault = f"  {result.error_type}" if result.error_type else ""
    return f"{status(result)}  score {result.score:.2f}{fault}" + (f": {cause}" if fault and cause else "")


def _first_line(text: str) -> str:
    lines = text.strip().split("\n")
    return safe(lines[0])[:300]


def _end(text: str) -> str:
    text = text.rstrip("\n")
    return text if len(text) <= _KEPT else "[...]\n" + text[-_KEPT:]
