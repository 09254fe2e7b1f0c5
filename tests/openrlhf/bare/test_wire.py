"""What comes in is either a request that OpenRLHF can have sent, or said not to be one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym_openrlhf.wire import BadRequestError, Query, answer, read

#: A machine that does much else is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def body(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


def test_a_request_of_the_newest_client_is_one_query_with_prompt_and_label() -> None:
    for label in ("two_sum", "", None, {"env": "two_sum", "n": 1}, 3):
        found = read(body(query=["pr"], prompts=["p"], labels=[label]))
        assert found == [Query("pr", "p", label)]


def test_a_request_of_an_old_client_has_many_queries_or_nothing_but_them() -> None:
    texts = [f"q{number}" for number in range(300)]
    assert [query.text for query in read(body(query=texts))] == texts
    assert read(body(query=["a"], prompts=[None], labels=None)) == [Query("a", "", None)]


def test_an_empty_request_has_no_queries() -> None:
    assert read(body(query=[], prompts=[], labels=[])) == read(body(query=[])) == []


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"", "isn't JSON"),
        (b"\xff\xfe\x00", "isn't JSON"),
        (b"[" * 200_000, "isn't JSON"),
        (b'{"query": [' + b"9" * 5000 + b"]}", "isn't JSON|list of texts"),
        (b"[]", "JSON list"),
        (b"null", "JSON NoneType"),
        (b"{}", "query must be a list of texts"),
        (body(query="a"), "query must be a list of texts"),
        (body(query=["a", 1]), "query must be a list of texts"),
        (body(query=["a"], prompts=[]), r"prompts must be a list as long as query, which has 1 item"),
        (body(query=["a"], prompts="a"), "prompts must be a list"),
        (body(query=["a"], prompts=[1]), "prompts must be a list of texts"),
        (body(query=["a"], labels=["x", "y"]), "labels must be a list as long"),
        (body(query=["a"], labels={"0": "x"}), "labels must be a list"),
    ],
)
def test_what_no_client_sends_is_refused_with_what_is_wrong_with_it(sent: bytes, what: str) -> None:
    with pytest.raises(BadRequestError, match=what):
        read(sent)


@given(st.binary(max_size=200))
@unhurried
def test_no_bytes_raise_anything_else(sent: bytes) -> None:
    said = ""
    try:
        read(sent)
    except BadRequestError as error:
        said = str(error)
    assert len(said) < 300


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
columns = anything | st.lists(st.text(max_size=5), max_size=3)


@given(st.fixed_dictionaries({}, optional={"query": columns, "prompts": columns, "labels": columns}))
@unhurried
def test_no_json_raises_anything_else_and_what_is_read_has_every_query(sent: dict[str, Any]) -> None:
    try:
        found = read(json.dumps(sent).encode())
    except BadRequestError:
        return
    assert [query.text for query in found] == sent["query"]
    assert all(isinstance(query.prompt, str) for query in found)


def test_an_answer_has_lists_of_floats_and_the_logs_of_every_sample() -> None:
    found = answer([1, True], [0, 0.5], [{"a": 1, "b": 0}, {"a": 2, "b": 3}])
    assert found == {
        "rewards": [1.0, 1.0],
        "scores": [0.0, 0.5],
        "extra_logs": {"a": [1.0, 2.0], "b": [0.0, 3.0]},
    }
    numbers = found["rewards"] + found["scores"] + found["extra_logs"]["a"]
    assert all(type(number) is float for number in numbers)


def test_an_answer_to_nothing_is_empty_lists() -> None:
    assert answer([], [], []) == {"rewards": [], "scores": []}


@pytest.mark.parametrize(
    ("rewards", "scores", "logs"),
    [
        ([1.0], [1.0, 2.0], [{}]),
        ([1.0], [1.0], []),
        ([1.0, 1.0], [1.0, 1.0], [{"a": 1.0}, {"b": 1.0}]),
        ([1.0, 1.0], [1.0, 1.0], [{"a": 1.0}, {"a": 1.0, "b": 1.0}]),
        ([1.0], [1.0], [{"a": math.nan}]),
        ([1.0], [1.0], [{"a": math.inf}]),
    ],
)
def test_what_would_end_the_training_run_is_no_answer(rewards: Any, scores: Any, logs: Any) -> None:
    with pytest.raises(ValueError, match=r"rewards, |finite"):
        answer(rewards, scores, logs)
