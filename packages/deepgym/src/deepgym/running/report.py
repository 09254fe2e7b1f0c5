"""A verifier's bytes: its report, and what its host added about the solution."""

from __future__ import annotations

from typing import Any

from deepgym.providers.base import Exit
from deepgym.sandboxed.wire import decode

__all__ = ["printed_report", "split_report"]


def split_report(data: bytes) -> tuple[bytes | None, dict[str, Any]]:
    """The report's bytes, and the facts that the verifier's host added at its end."""
    body, _, last = data.rstrip(b"\n").rpartition(b"\n")
    if not last.startswith(b"#"):
        return (data or None), {}
    try:
        facts = decode(last[1:])
    except ValueError:
        return (data or None), {}
    return (body or None), facts if type(facts) is dict else {}


def printed_report(stdout: bytes, ended: Exit, ran_to_its_end: bool) -> tuple[bytes, Exit]:
    """The easy form: stdout is the report. A program that chose no exit status leaves that to the report:
    to ``passed``, or without it to whether the score is 1.
    """
    line = stdout.strip()
    if not ran_to_its_end:
        return line, ended
    try:
        body = decode(line)
    except ValueError:
        return line, ended
    said = body if type(body) is dict else {}
    passed = said.get("passed", said.get("score") == 1)
    return line, Exit(**{**vars(ended), "code": 0 if passed is True else 1})
