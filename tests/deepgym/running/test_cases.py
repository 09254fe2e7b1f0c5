"""Declared cases without a sandbox: what is asked, and what each possible reply amounts to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgym.environments import Case, Cases, Environment, EnvironmentLimits
from deepgym.running.cases import CasePlan
from deepgym.sandboxed.wire import decode


def plan(*cases: Case, limits: dict[str, Any] | None = None, **verify: Any) -> CasePlan:
    fields = Cases.model_validate({"function": "f", **verify, "cases": cases})
    env = Environment(name="t", task="t", verify=fields, limits=EnvironmentLimits(**(limits or {})))
    return CasePlan.make(env, cases)


ONE = plan(Case(args=(1,), expected=(1, 2), weight=2.0, name="pair"))
TEXT = plan(Case(stdin="1\n", stdout="a\nb\n"), function=None)


def test_a_request_holds_the_arguments_and_never_the_expected_value() -> None:
    found = plan(
        Case(args=((1, 2), {3}), expected="the secret"),
        Case(args=(), kwargs={"k": (1,)}, expected="the secret"),
    )
    assert [decode(line[:-1]) for line in found.requests] == [
        {"id": 1, "a": [{"!t": [1, 2]}, {"!s": [3]}]},
        {"id": 2, "a": [], "k": {"k": {"!t": [1]}}},
    ]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found.requests)
    assert not any(b"secret" in line for line in found.requests)


def test_a_class_is_asked_for_with_all_its_calls() -> None:
    case = Case(calls=(("f", 1), ("put", (2,))), expected=[None, "the secret"])
    (line,) = plan(case).requests
    assert decode(line[:-1]) == {"id": 1, "c": [["f", 1], ["put", {"!t": [2]}]]}


def test_a_program_is_asked_for_with_its_input_and_its_bounds() -> None:
    limits = {"output": 100, "case_timeout": 2.0}
    (line,) = plan(Case(stdin="in\n", stdout="the secret"), function=None, limits=limits).requests
    assert decode(line[:-1]) == {"id": 1, "run": {"in": "in\n", "limit": 100, "t": 2.0}}


def test_a_right_reply_passes_with_its_name_and_weight() -> None:
    fact = ONE.read(1, b'{"id":1,"v":{"!t":[1,2]}}')
    assert fact is not None
    assert (fact.outcome, fact.weight, fact.name) == ("passed", 2.0, "pair")


def test_a_right_reply_in_other_bytes_passes_too() -> None:
    fact = ONE.read(1, b'{"v": {"!t": [1, 2]}, "id": 1}')
    assert fact is not None
    assert fact.outcome == "passed"


OTHER: list[tuple[bytes, str | None]] = [
    (b'{"id":1,"v":[1,2]}', "wrong"),
    (b'{"id":1,"v":{"!t":[1,2,3]}}', "wrong"),
    (b'{"id":1,"v":{"!t":[1,true]}}', "wrong"),
    (b'{"id":1,"v":{"!t":[1,2.0]}}', "wrong"),
    (b'{"id":1,"v":null}', "wrong"),
    (b'{"id":1,"v":{"!f":"nan"}}', "malformed"),
    (b'{"id":1,"v":{"!q":1}}', "malformed"),
    (b'{"id":1,"v":NaN}', "malformed"),
    (b'{"id":1,"v":1e999}', "malformed"),
    (b'{"id":1,"v":' + b"[" * 100_000, "malformed"),
    (b'{"id":1,"v":' + b"[" * 500 + b"]" * 500 + b"}", "malformed"),
    (b'{"id":1,"v":' + b"9" * 10_000 + b"}", "malformed"),
    (b'{"id":1,"v":1,"v":{"!t":[1,2]}}', "malformed"),
    (b'{"id":1,"v":{"!t":[1,2]}} ', "malformed"),
    (b"", "malformed"),
    (b"passed", "malformed"),
    (b"\xff\xfe", "malformed"),
    (b'{"id":1}', "malformed"),
    (b'{"id":1,"e":"X"}', "malformed"),
    (b'{"id":1,"e":"X","m":"y"}', "raised"),
    (b'{"id":1,"e":[1],"m":{"a":1}}', "raised"),
    (b'{"id":1,"v":"' + b"x" * (2 << 20) + b'"}', "malformed"),
    (b'{"id":2,"v":{"!t":[1,2]}}', None),
    (b'{"id":true,"v":{"!t":[1,2]}}', None),
    (b'{"id":1.0,"v":{"!t":[1,2]}}', None),
    (b'{"id":"1","v":{"!t":[1,2]}}', None),
    (b'{"v":{"!t":[1,2]}}', None),
    (b"[1,2]", None),
    (b"null", None),
]


@pytest.mark.parametrize(("line", "outcome"), OTHER, ids=lambda item: repr(item)[:40])
def test_any_other_reply_is_what_it_is_and_none_answers_another_request(
    line: bytes, outcome: str | None
) -> None:
    fact = ONE.read(1, line)
    assert (fact and fact.outcome) == outcome
    if fact is not None:
        assert fact.weight == 2.0
        assert len(fact.message) <= 2000
        fact.model_dump_json().encode()


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_reading_a_reply_fail(line: bytes) -> None:
    for one in (ONE, TEXT):
        fact = one.read(1, line)
        assert fact is None or fact.outcome != "passed"


def test_a_message_never_holds_the_expected_value() -> None:
    one = plan(Case(args=(1,), expected="the secret"))
    for line, _ in OTHER:
        fact = one.read(1, line)
        assert fact is None or "secret" not in fact.message


def printed(out: Any, exit_status: Any = 0, timed_out: Any = False, cut: Any = False) -> bytes:
    import json

    value = {"out": out, "err": "", "exit": exit_status, "timed_out": timed_out, "cut": cut}
    return json.dumps({"id": 1, "v": value}).encode()


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (printed("a\nb\n"), "passed"),
        (printed("a\nb"), "passed"),
        (printed("a  \nb\t\n\n\n"), "passed"),
        (printed("a\r\nb\r\n"), "passed"),
        (printed("\na\nb"), "wrong"),
        (printed("a b"), "wrong"),
        (printed("b\na"), "wrong"),
        (printed(" a\nb"), "wrong"),
        (printed("a\nb", exit_status=1), "raised"),
        (printed("a\nb", exit_status=-9), "raised"),
        (printed("a\nb", timed_out=True), "timeout"),
        (printed("a\nb", cut=True), "wrong"),
        (printed(5), "malformed"),
        (printed(None), "malformed"),
        (printed("a\nb", exit_status="0"), "malformed"),
        (printed("a\nb", exit_status=False), "malformed"),
        (printed("a\nb", exit_status=0.0), "malformed"),
        (b'{"id":1,"v":{"out":"a\\nb"}}', "malformed"),
        (b'{"id":1,"v":"a\\nb"}', "malformed"),
        (b'{"id":1,"v":null}', "malformed"),
        (b'{"id":1,"v":[1]}', "malformed"),
        (b'{"id":1,"e":"OSError","m":"x"}', "raised"),
    ],
    ids=lambda item: repr(item)[:70],
)
def test_a_programs_output_is_compared_line_by_line(line: bytes, outcome: str) -> None:
    fact = TEXT.read(1, line)
    assert fact is not None
    assert fact.outcome == outcome


@pytest.mark.parametrize(
    ("compare", "expected", "out", "same"),
    [
        ("unordered", "a\nb\nb", "b\na\nb", True),
        ("unordered", "a\nb\nb", "b\na\na", False),
        ("set", "a\nb\nb", "b\na", True),
        ("set", "a\nb", "a", False),
        ("float", "1.0 x", "1.0000000001 x", True),
        ("float", "1.0 x", "1.1 x", False),
        ("float", "1.0", "1.0 2.0", False),
        ("float", "1.0", "1.0\n2.0", False),
        ("float", "1.0", "nan", False),
        ("float", "inf", "inf", True),
        ("float", "1e308", "inf", False),
        ("float", "x", "y", False),
        ("float", "3", "3.0", True),
        ("exact", "3", "3.0", False),
    ],
)
def test_the_environments_rule_holds_for_output_too(
    compare: str, expected: str, out: str, same: bool
) -> None:
    one = plan(Case(stdin="", stdout=expected), function=None, compare=compare)
    fact = one.read(1, printed(out))
    assert fact is not None
    assert (fact.outcome == "passed") is same
