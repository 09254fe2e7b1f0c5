"""Declared cases: what to ask, and whether a reply is what was expected.

Requests and expected replies are encoded once per environment and seed. A reply that is byte for byte
the expected one passed; anything else is looked at more closely. Replies are untrusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepgym.contract.evidence import CaseFact
from deepgym.environments.environment import Environment, EnvironmentLimits
from deepgym.environments.verify import Case, Cases
from deepgym.sandboxed.values import Rule, matches, pack
from deepgym.sandboxed.wire import clean, decode, encode

__all__ = ["CasePlan"]

_MAX_LINE = 1 << 20


@dataclass(frozen=True)
class CasePlan:
    """One environment's cases, ready to be asked and compared."""

    requests: tuple[bytes, ...]
    passes: tuple[bytes, ...]
    expected: tuple[Any, ...]
    facts: tuple[CaseFact, ...]
    """What stands in the evidence of each case that passed."""
    rule: Rule
    program: bool

    @classmethod
    def make(
        cls, env: Environment, cases: Sequence[Case], limits: EnvironmentLimits | None = None
    ) -> CasePlan:
        """The plan for ``cases`` (fixed and drawn) of ``env``, whose ``verify`` is ``Cases``.

        ``limits``: instead of the environment's own.
        """
        limits = limits or env.limits
        verify = env.verify
        assert isinstance(verify, Cases)
        rule = Rule(verify.compare, verify.rel_tol, verify.abs_tol, verify.allow_nonfinite)
        expected = tuple(case.stdout if verify.function is None else pack(case.expected) for case in cases)
        return cls(
            requests=tuple(_request(at, case, limits) for at, case in enumerate(cases, 1)),
            passes=tuple(_pass_line(at, value) for at, value in enumerate(expected, 1)),
            expected=expected,
            facts=tuple(CaseFact(outcome="passed", weight=case.weight, name=case.name) for case in cases),
            rule=rule,
            program=verify.function is None,
        )

    @property
    def room(self) -> int:
        """Bytes that all replies together may have: far more than right ones need."""
        return (16 << 20) + 2 * sum(map(len, self.passes))

    def read_all(self, replies: bytes) -> tuple[list[CaseFact], bool]:
        """One fact a case; and whether the process ended, or stopped making sense, with replies owed."""
        total = len(self.requests)
        lines = replies.split(b"\n", total + 1)
        lines.pop()
        facts: list[CaseFact] = []
        for number, line in enumerate(lines[:total], 1):
            fact = self.read(number, line)
            if fact is None:
                break
            facts.append(fact)
        died = len(facts) < total or len(lines) > total
        facts += [self.fact(number, "unanswered") for number in range(len(facts) + 1, total + 1)]
        return facts, died

    def read(self, number: int, line: bytes) -> CaseFact | None:
        """What reply ``line`` to request ``number`` (from 1) shows; ``None`` if it answers no request."""
        passed = self.facts[number - 1]
        if line == self.passes[number - 1]:
            return passed
        if len(line) > _MAX_LINE + 2 * len(self.passes[number - 1]):
            return self.fact(number, "malformed", "the reply is far longer than the right one")
        try:
            reply = decode(line)
            if type(reply) is not dict or reply.get("id") != number or type(reply["id"]) is not int:
                return None
            if "v" not in reply:
                text = f"{clean(str(reply['e']), 100)}: {clean(str(reply['m']), 300)}"
                return self.fact(number, "raised", text)
            if self.program:
                return self._printed(number, reply["v"])
            same = matches(reply["v"], self.expected[number - 1], self.rule)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return self.fact(number, "malformed", clean(str(error), 300))
        return passed if same else self.fact(number, "wrong")

    def fact(self, number: int, outcome: str, message: str = "") -> CaseFact:
        """A fact about a case that didn't pass."""
        return self.facts[number - 1].model_copy(update={"outcome": outcome, "message": message})

    def _printed(self, number: int, value: Any) -> CaseFact:
        ran = {key: value[key] for key in ("out", "exit", "timed_out", "cut")}
        if type(ran["out"]) is not str or type(ran["exit"]) is not int:
            return self.fact(number, "malformed", "not a program's result")
        if ran["timed_out"] is True:
            return self.fact(number, "timeout", "ran past case_timeout")
        if ran["exit"] != 0:
            return self.fact(number, "raised", f"ended with status {ran['exit']}")
        if ran["cut"] is True:
            return self.fact(number, "wrong", "printed more than limits.output")
        same = _same_text(ran["out"], self.expected[number - 1], self.rule)
        return self.facts[number - 1] if same else self.fact(number, "wrong")


def _pass_line(number: int, expected: Any) -> bytes:
    return b'{"id":%d,"v":%b}' % (number, encode(expected))


def _request(number: int, case: Case, limits: EnvironmentLimits) -> bytes:
    request: dict[str, Any] = {"id": number}
    if case.stdout is not None:
        request["run"] = {"in": case.stdin or "", "limit": limits.output, "t": limits.case_timeout}
    elif case.calls is not None:
        request["c"] = [[name, *(pack(item) for item in arguments)] for name, *arguments in case.calls]
    else:
        request["a"] = [pack(item) for item in case.args]
        if case.kwargs:
            request["k"] = {key: pack(item) for key, item in case.kwargs.items()}
    return encode(request) + b"\n"


def _same_text(printed: str, expected: str, rule: Rule) -> bool:
    """Whether a program printed what was expected; spaces at line ends and empty last lines don't count."""
    left, right = _lines(printed), _lines(expected)
    if rule.compare == "unordered":
        return sorted(left) == sorted(right)
    if rule.compare == "set":
        return set(left) == set(right)
    if rule.compare == "float":
        return len(left) == len(right) and all(
            _close(one, other, rule) for one, other in zip(left, right, strict=True)
        )
    return left == right


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close(printed: str, expected: str, rule: Rule) -> bool:
    left, right = printed.split(), expected.split()
    return len(left) == len(right) and all(
        one == other or _close_words(one, other, rule) for one, other in zip(left, right, strict=True)
    )


def _close_words(printed: str, expected: str, rule: Rule) -> bool:
    try:
        value, wanted = float(printed), float(expected)
    except ValueError:
        return False
    return math.isfinite(value) and abs(value - wanted) <= max(rule.abs_tol, rule.rel_tol * abs(wanted))
