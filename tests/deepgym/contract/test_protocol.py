from __future__ import annotations

import json
from typing import Any

import pytest

from deepgym.contract.protocol import MAX_REPORT, Report, ReportError, parse_report


def encode(**body: Any) -> bytes:
    return json.dumps({"score": 0.5, **body}).encode()


def test_a_score_alone_is_a_report() -> None:
    assert parse_report(b'{"score": 1}') == Report(score=1.0)


def test_one_newline_and_blank_space_around_the_line_are_no_second_report() -> None:
    assert parse_report(b' \r\n {"score": 0.5} \n\n').score == 0.5


def test_members_that_are_null_count_as_left_out() -> None:
    members = ("passed", "cases", "reward_components", "metrics", "details", "seed", "error_type", "error")
    assert parse_report(encode(**dict.fromkeys(members))) == Report(score=0.5)


def test_a_failure_needs_no_score() -> None:
    report = parse_report(b'{"error_type": "runtime_error", "error": "no compiler", "score": null}')
    assert (report.error_type, report.error, report.score) == ("runtime_error", "no compiler", 0.0)


def test_an_empty_error_type_is_none() -> None:
    assert parse_report(encode(error_type="")).error_type is None


@pytest.mark.parametrize(
    "score",
    [
        "true",
        "null",
        '"1"',
        "NaN",
        "Infinity",
        "-Infinity",
        "1.0000001",
        "-0.1",
        "2",
        "[1]",
        "1e999",
        "9" * 400,
    ],
)
def test_what_is_no_score_is_an_invalid_score(score: str) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(f'{{"score": {score}, "passed": true}}'.encode())
    assert caught.value.kind == "invalid_score"
    assert "score is" in str(caught.value)


def test_a_missing_score_is_an_invalid_score() -> None:
    with pytest.raises(ReportError, match="score is missing") as caught:
        parse_report(b'{"passed": true}')
    assert caught.value.kind == "invalid_score"


def test_an_error_type_does_not_excuse_a_bad_score() -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(b'{"score": 7, "error_type": "runtime_error"}')
    assert caught.value.kind == "invalid_score"


def nested(depth: int) -> bytes:
    return b'{"score": 1, "details": {"a": ' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\r\n",
    "not JSON": b"passed",
    "cut short": b'{"score": 1',
    "not an object": b"[1]",
    "a number": b"1.0",
    "two reports on two lines": b'{"score": 1}\n{"score": 1}',
    "two reports on one line": b'{"score": 1}{"score": 1}',
    "trailing text": b'{"score": 1} ok',
    "leading text": b'ok {"score": 1}',
    "spread over lines": b'{\n"score": 1}',
    "duplicate keys": b'{"score": 0, "score": 1}',
    "duplicate keys and a bad score": b'{"score": NaN, "score": 1}',
    "duplicate keys below": b'{"score": 1, "details": {"a": 1, "a": 2}}',
    "NaN elsewhere": b'{"score": 1, "details": {"a": NaN}}',
    "overflow elsewhere": b'{"score": 1, "metrics": {"a": 1e999}}',
    "not UTF-8": b'{"score": 1, "error": "\xff"}',
    "UTF-16": '{"score": 1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + b'{"score": 1}',
    "a raw control character": b'{"score": 1, "error": "\x01"}',
    "a NUL behind it": b'{"score": 1}\x00',
    "too deep": nested(33),
    "far too deep": nested(100_000),
    "too deep, brackets hidden by text": b'{"score": 1, "error": "]]]]", "details": {"a": '
    + b"[" * 40
    + b"]" * 40
    + b"}}",
    "too long": b'{"score": 1, "error": "' + b"x" * MAX_REPORT + b'"}',
    "unknown member": encode(scores=1),
    "passed as a number": encode(passed=1),
    "passed as text": encode(passed="true"),
    "error type as a number": encode(error_type=1),
    "error as a list": encode(error=["x"]),
    "seed as text": encode(seed="1"),
    "seed as a float": encode(seed=1.0),
    "seed as a bool": encode(seed=True),
    "seed out of range": encode(seed=1 << 64),
    "components as a list": encode(reward_components=[1]),
    "a component as text": encode(reward_components={"a": "1"}),
    "a component as a bool": encode(reward_components={"a": True}),
    "a component as null": encode(reward_components={"a": None}),
    "a component too large": encode(reward_components={"a": 10**301}),
    "a metric as a list": encode(metrics={"a": [1]}),
    "too many metrics": encode(metrics={str(i): i for i in range(1001)}),
    "details as a list": encode(details=[1]),
    "cases as an object": encode(cases={}),
    "too many cases": encode(cases=[{"passed": True}] * 10_001),
    "a case as text": encode(cases=["a"]),
    "a case without passed": encode(cases=[{"name": "a"}]),
    "a case passed as a number": encode(cases=[{"passed": 1}]),
    "a case with an unknown member": encode(cases=[{"passed": True, "outcome": "passed"}]),
    "a case's name as a number": encode(cases=[{"passed": True, "name": 1}]),
    "a case's message as a list": encode(cases=[{"passed": True, "message": []}]),
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_report_is_malformed(raw: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(raw)
    assert caught.value.kind == "malformed"
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("score", [True, "1", 1.5, -1])
def test_a_cases_bad_score_is_an_invalid_score(score: object) -> None:
    with pytest.raises(ReportError) as caught:
        parse_report(encode(cases=[{"passed": True, "score": score}]))
    assert caught.value.kind == "invalid_score"


def test_nesting_up_to_the_limit_is_read() -> None:
    assert parse_report(nested(32)).details["a"]


def test_brackets_in_text_are_no_nesting() -> None:
    assert parse_report(encode(error="[{" * 100 + '\\"')).error == "[{" * 100 + '\\"'


def test_a_long_list_is_not_deep() -> None:
    assert len(parse_report(encode(details={"a": [[i] for i in range(100)]})).details["a"]) == 100


def test_the_largest_report_is_read() -> None:
    frame = len(encode(error=""))
    report = parse_report(encode(error="x" * (MAX_REPORT - frame)))
    assert report.error == "x" * 2000


def test_lone_surrogates_are_replaced_in_what_a_report_says() -> None:
    report = parse_report(
        encode(error="\ud800", metrics={"\udfff": 1}, cases=[{"passed": True, "name": "\ud800"}])
    )
    assert report.error == "\ufffd"
    assert report.metrics == {"\ufffd": 1.0}
    assert report.cases[0].name == "\ufffd"


def test_a_case_scores_what_it_says_or_what_passing_is_worth() -> None:
    report = parse_report(
        encode(cases=[{"passed": True}, {"passed": False}, {"passed": False, "score": 0.5}])
    )
    assert [case.score for case in report.cases] == [1.0, 0.0, 0.5]


def test_an_error_is_the_same_after_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(ReportError("invalid_score", "score is 2")))
    assert (error.kind, str(error)) == ("invalid_score", "score is 2")
