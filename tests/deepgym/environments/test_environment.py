from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.exceptions import VerifierError


def make(**changes: Any) -> Environment:
    fields: dict[str, Any] = {
        "name": "double",
        "task": "Write double(x).",
        "verify": Cases(function="double", cases=(Case(args=(2,), expected=4),)),
    }
    return Environment(**{**fields, **changes})


def test_the_defaults_are_the_documented_ones() -> None:
    environment = make()
    assert environment.schema_version == 1
    assert environment.seed == 0
    assert environment.loopback is False
    assert environment.limits == EnvironmentLimits(
        wall=10.0,
        cpu=None,
        memory=512 << 20,
        processes=32,
        open_files=128,
        file_size=64 << 20,
        disk=64 << 20,
        files=4096,
        output=64 << 10,
        case_timeout=None,
    )


def test_cpu_seconds_are_wall_seconds_unless_given() -> None:
    assert EnvironmentLimits(wall=3.0).cpu_seconds == 3.0
    assert EnvironmentLimits(wall=3.0, cpu=1.5).cpu_seconds == 1.5


def test_an_environment_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make().name = "other"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nmae": "x"}, "nmae"),
        ({"schema_version": 2}, "schema_version"),
        ({"name": ""}, "name"),
        ({"name": "../x"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a/"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"task": ""}, "task"),
        ({"verify": {"kind": "magic"}}, "verify"),
        ({"verify": {"kind": "cases"}}, "no cases: give cases, draw, or both"),
        ({"files": {"../a": "x"}}, "isn't a safe relative path"),
        ({"files": {"/a": "x"}}, "isn't a safe relative path"),
        ({"files": {"a\\b": "x"}}, "isn't a safe relative path"),
        ({"files": {"a//b": "x"}}, "isn't a safe relative path"),
        ({"files": {"./a": "x"}}, "isn't a safe relative path"),
        ({"files": {"a\x00": "x"}}, "isn't a safe relative path"),
        ({"files": {"a" * 201: "x"}}, "isn't a safe relative path"),
        ({"files": {"": "x"}}, "isn't a safe relative path"),
        ({"files": {"a": "x", "a/b/c": "y"}}, "is a file and the folder of"),
        ({"files": {"a": b"x"}}, "files"),
        ({"files": {"big": "x" * 5000}, "limits": {"disk": 4096}}, "raise limits.disk"),
        ({"entry_point": "not a name"}, "entry_point"),
        ({"language": "bash"}, "needs an interpreter"),
        ({"language": "bash", "interpreter": ("bash",)}, "drop function"),
        ({"difficulty": "brutal"}, "difficulty"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": 1 << 63}, "seed"),
        ({"loopback": "yes"}, "loopback"),
        ({"limits": {"wall": 0}}, "limits.wall"),
        ({"limits": {"wall": float("inf")}}, "limits.wall"),
        ({"limits": {"wall": float("nan")}}, "limits.wall"),
        ({"limits": {"wall": "10"}}, "limits.wall"),
        ({"limits": {"wall": True}}, "limits.wall"),
        ({"limits": {"memory": 1}}, "limits.memory"),
        ({"limits": {"processes": 0}}, "limits.processes"),
        ({"limits": {"output": 1 << 40}}, "limits.output"),
        ({"limits": {"wall": 1.0, "case_timeout": 2.0}}, "raise wall"),
        ({"limits": {"memroy": 5}}, "limits.memroy"),
    ],
)
def test_what_is_not_an_environment_is_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make(**changes)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"args": (object(),)}, "args[0] is a builtins.object, which can't cross"),
        ({"expected": {"a": [1, {2: object()}]}}, "expected['a'][1][2]"),
        ({"expected": {(1, object()): 1}}, "a key of expected[1]"),
        ({"expected": 1 << 20_000}, "integer of 20001 bits"),
        ({"expected": "\ud800"}, "lone surrogate"),
        ({"calls": ()}, "non-empty list"),
        ({"calls": (("A",), 5), "expected": [None, 1]}, "non-empty list"),
        ({"calls": (("A",), ("not a name",)), "expected": [None, 1]}, "non-empty list"),
        ({"calls": (("A",), ("f",)), "expected": [None]}, "a list of 2 values"),
        ({"calls": (("A",),), "expected": [None], "args": (1,)}, "keep one"),
        ({"stdin": "x", "args": (1,)}, "keep one"),
        ({"stdin": "x"}, "stdin without stdout"),
        ({"stdout": "x", "expected": 4}, "drop expected"),
        ({"weight": 0}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"wieght": 1.0}, "wieght"),
    ],
)
def test_what_is_not_a_case_is_refused_by_name(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Case(**fields)
    assert says in str(caught.value)


class _Int(int):
    pass


def test_a_subclass_cannot_pose_as_a_plain_value() -> None:
    with pytest.raises(ValidationError, match="can't cross"):
        Case(expected=_Int(3))


def test_a_value_nested_too_deeply_is_refused() -> None:
    value: list[Any] = []
    for _ in range(60):
        value = [value]
    with pytest.raises(ValidationError, match="nested deeper than 48"):
        Case(expected=value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"function": "f", "cases": (Case(stdout="x"),)}, "drop one of the two"),
        ({"cases": (Case(args=(1,), expected=1),)}, "has no stdout"),
        ({"function": "A", "cases": (Case(calls=(("B",),), expected=[None]),)}, "the first call is 'A'"),
        ({"function": "f", "cases": (Case(expected=float("nan")),)}, "allow_nonfinite = true"),
        ({"function": "f", "cases": (Case(args=([complex("inf")],), expected=1),)}, "allow_nonfinite = true"),
        ({"function": "f", "draw": "def drew(rng): return []"}, "must define draw(rng)"),
        ({"function": "f", "draw": "def draw(rng) return []"}, "isn't valid Python"),
        ({"function": "f", "cases": (Case(),), "compare": "close"}, "compare"),
        ({"function": "f", "cases": (Case(),), "rel_tol": -1.0}, "rel_tol"),
        ({"function": "f", "cases": (Case(),), "abs_tol": float("inf")}, "abs_tol"),
    ],
)
def test_cases_that_contradict_themselves_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Cases(**fields)
    assert says in str(caught.value)


def test_values_that_are_not_finite_cross_where_they_are_allowed() -> None:
    cases = Cases(function="f", allow_nonfinite=True, cases=(Case(expected=float("inf")),))
    assert cases.cases[0].expected == float("inf")


def test_drawn_rows_follow_the_fixed_cases_and_are_checked_like_them() -> None:
    cases = Cases(function="f", cases=(Case(args=(1,), expected=1),), draw="def draw(rng): return []")
    rows = [{"args": [2], "expected": (2,), "weight": 3}]
    assert cases.with_drawn(rows) == (Case(args=(1,), expected=1), Case(args=(2,), expected=(2,), weight=3))
    for bad in ({"args": [2], "expect": 2}, {"stdout": "x"}, {"expected": float("nan")}, [1], None):
        with pytest.raises(VerifierError, match=r"drawn\[0\]"):
            cases.with_drawn([bad])


def test_drawing_nothing_or_too_much_is_an_error() -> None:
    cases = Cases(function="f", draw="def draw(rng): return []")
    with pytest.raises(VerifierError, match="draw returned no cases"):
        cases.with_drawn([])
    with pytest.raises(VerifierError, match="more than 5000 cases"):
        cases.with_drawn({"args": [1]} for _ in iter(int, 1))


def test_a_tag_in_a_drawn_row_is_an_ordinary_dict() -> None:
    cases = Cases(function="f", draw="def draw(rng): return []")
    (case,) = cases.with_drawn([{"expected": {"!t": [1]}}])
    assert case.expected == {"!t": [1]}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"source": ""}, "source"),
        ({"source": "def verify(solution) pass"}, "source isn't valid Python"),
        ({"source": "x = 1\x00"}, "source isn't valid Python"),
        ({"source": "pass", "files": {"../x": ""}}, "isn't a safe relative path"),
        ({"source": "pass", "files": {"deepgym_verify.py": ""}}, "rename the file"),
        ({"source": "pass", "seeded": 1}, "seeded"),
    ],
)
def test_a_program_that_cannot_run_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Program(**fields)
    assert says in str(caught.value)


EXOTIC = Cases(
    function="f",
    allow_nonfinite=True,
    cases=(
        Case(
            args=((1, [2]), {3, 4}, frozenset({"b", "a"}), b"\x00\xff", {1: "a", (2, 3): None}, 1 + 2j),
            kwargs={"key": (1,), "plain": {"!t": [1]}},
            expected={"x": float("-inf"), "y": [(1,), True, 1, 1.0]},
        ),
        Case(args=("é\n",), expected=None, name="accent", weight=0.5),
    ),
)


def test_exact_types_survive_a_round_trip_through_json() -> None:
    environment = make(verify=EXOTIC)
    again = Environment.model_validate_json(environment.model_dump_json())
    assert again == environment
    assert isinstance(again.verify, Cases)
    assert repr(again.verify.cases[0].expected) == repr(EXOTIC.cases[0].expected)
    assert type(again.verify.cases[0].args[0]) is tuple
    assert type(again.verify.cases[0].args[2]) is frozenset
    assert again.digest == environment.digest


def test_calls_survive_a_round_trip_through_json() -> None:
    case = Case(calls=(("Box", (1,)), ("put", {2}), ("get",)), expected=[None, None, {2}])
    assert Case.model_validate_json(case.model_dump_json()) == case


@pytest.mark.parametrize(
    "value", [{"!q": []}, {"!t": 5}, {"!b": "zz"}, {"!s": [[]]}, {"!f": "much"}, {"!c": []}]
)
def test_a_malformed_tag_in_json_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match="not a tagged value"):
        Case.model_validate_json(json.dumps({"expected": value}))


def test_equal_environments_have_equal_digests_and_hashes() -> None:
    assert make(verify=EXOTIC).digest == make(verify=copy.deepcopy(EXOTIC)).digest
    assert len({make(), make(), make(seed=1)}) == 2
    assert len(make().digest) == 64


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"task": "Other"}, {"files": {"a": ""}}, {"limits": {"wall": 9.0}}, {"tags": ("x",)}],
)
def test_any_change_changes_the_digest(changes: dict[str, Any]) -> None:
    assert make(**changes).digest != make().digest


def test_a_tuple_and_a_list_have_different_digests() -> None:
    one, other = (Cases(function="f", cases=(Case(expected=value),)) for value in ([1], (1,)))
    assert make(verify=one).digest != make(verify=other).digest


def test_a_digest_does_not_depend_on_the_process() -> None:
    script = (
        "from deepgym.environments import *;"
        "print(Environment(name='a', task='t', verify=Cases(function='f',"
        " cases=(Case(expected={'x', 'y', 'z', 'w', 'v'}),))).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_a_copy_with_changes_is_checked_and_has_its_own_digest() -> None:
    environment = make()
    before = environment.digest
    changed = environment.model_copy(update={"seed": 5})
    assert changed.seed == 5
    assert changed.digest != before
    assert changed.verify is environment.verify
    with pytest.raises(ValidationError, match="seed"):
        environment.model_copy(update={"seed": -5})
    assert environment.model_copy() == environment
    assert environment.model_copy(deep=True) == environment


def test_an_environment_pickles() -> None:
    environment = make(verify=EXOTIC)
    digest = environment.digest
    again = pickle.loads(pickle.dumps(environment))
    assert again == environment
    assert again.digest == digest


def test_reading_the_digest_does_not_make_equal_environments_differ() -> None:
    read, unread = make(), make()
    _ = read.digest
    assert read == unread
