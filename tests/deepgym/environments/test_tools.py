from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, ToolCall
from deepgym.environments.tools import TOOL_NAMES, read_call, tool_schemas

VERIFY = Program(source="def verify(work):\n    return True\n")


def environment(**fields: Any) -> MultiTurnEnvironment:
    return MultiTurnEnvironment.model_validate({"name": "t", "task": "t", "verify": VERIFY, **fields})


def test_the_schemas_are_openai_functions_with_all_arguments_required() -> None:
    schemas = tool_schemas()
    assert [schema["function"]["name"] for schema in schemas] == list(TOOL_NAMES)
    for schema in schemas:
        assert schema["type"] == "function"
        parameters = schema["function"]["parameters"]
        assert parameters["type"] == "object"
        assert parameters["required"] == list(parameters["properties"])
        assert parameters["additionalProperties"] is False
        assert all(
            item["type"] == "string" and item["description"] for item in parameters["properties"].values()
        )
        assert schema["function"]["description"].endswith(".")
    assert json.loads(json.dumps(schemas)) == schemas
    assert [schema["function"]["name"] for schema in tool_schemas(["submit", "bash"])] == ["submit", "bash"]


BASH = ToolCall(name="bash", arguments={"command": "ls"})


@pytest.mark.parametrize(
    "action",
    [
        BASH,
        "ls",
        {"name": "bash", "arguments": {"command": "ls"}},
        {"name": "bash", "arguments": '{"command": "ls"}'},
        {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
    ],
)
def test_every_form_of_a_call_is_the_same_call(action: object) -> None:
    assert read_call(action) == (BASH, None)


@pytest.mark.parametrize("arguments", [{}, "{}", ""])
def test_a_call_without_arguments_may_say_so_as_it_likes(arguments: object) -> None:
    assert read_call({"name": "submit", "arguments": arguments}) == (ToolCall(name="submit"), None)
    assert read_call({"name": "submit"}) == (ToolCall(name="submit"), None)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (None, "an action is a tool call or text, not NoneType"),
        (["ls"], "not list"),
        ({}, "a tool call needs a name"),
        ({"name": 5}, "a tool call needs a name"),
        ({"function": "bash"}, "a tool call needs a name"),
        ({"name": "bash", "arguments": "{"}, "aren't JSON"),
        ({"name": "bash", "arguments": "[" * 100_000}, "aren't JSON"),
        ({"name": "bash", "arguments": "[1]"}, "must be an object"),
        ({"name": "bash", "arguments": "NaN"}, "must be an object"),
        ({"name": "cmd", "arguments": {}}, "there is no tool 'cmd'; the tools are bash, python"),
        ({"name": "bash", "arguments": {}}, "command is missing. Its arguments: command"),
        ({"name": "bash", "arguments": {"cmd": "ls"}}, "cmd isn't an argument of this tool"),
        ({"name": "bash", "arguments": {"command": 5}}, "command Input should be a valid string"),
        ({"name": "bash", "arguments": {"command": "x" * (1 << 21)}}, "command String should have at most"),
        ({"name": "read_file", "arguments": {"path": ""}}, "path String should have at least 1 character"),
        ({"name": "submit", "arguments": {"now": True}}, "Its arguments: none"),
    ],
)
def test_what_is_wrong_with_a_call_is_told_and_never_raised(action: object, says: str) -> None:
    call, wrong = read_call(action)
    assert isinstance(call, ToolCall)
    assert wrong is not None
    assert says in wrong
    assert len(wrong) <= 2000


def test_a_tool_that_the_environment_lacks_is_no_tool() -> None:
    _, wrong = read_call({"name": "python", "arguments": {"code": "1"}}, ["bash", "submit"])
    assert wrong == "there is no tool 'python'; the tools are bash, submit"
    assert read_call("ls", ["python"])[1] == "there is no tool 'bash'; the tools are python"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*TOOL_NAMES, "function", "arguments"]) | st.text(
    alphabet=st.characters(codec=None), max_size=10
)


@given(
    JSON
    | st.fixed_dictionaries({"name": NAMES | JSON, "arguments": JSON})
    | st.fixed_dictionaries(
        {
            "name": NAMES,
            "arguments": st.dictionaries(st.sampled_from(["command", "path", "code"]), JSON | NAMES),
        }
    )
    | st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": NAMES, "arguments": NAMES | JSON})})
)
def test_no_action_makes_reading_it_fail(action: object) -> None:
    call, wrong = read_call(action)
    if wrong is None:
        assert call.name in TOOL_NAMES
        assert all(isinstance(value, str) for value in call.arguments.values())
    else:
        wrong.encode()
    call.name.encode()


def test_a_call_can_be_hashed_compared_and_pickled() -> None:
    other = ToolCall(name="bash", arguments={"command": "pwd"})
    assert len({BASH, other, ToolCall(name="bash", arguments={"command": "ls"})}) == 2
    assert pickle.loads(pickle.dumps(BASH)) == BASH


def test_a_multi_turn_environment_has_sensible_defaults() -> None:
    made = environment()
    assert made.kind == "multi_turn"
    assert made.tools == TOOL_NAMES
    assert made.limits == EpisodeLimits()
    assert (made.setup, made.requires, made.reference, made.step_verify) == ("", (), None, None)


def test_a_multi_turn_environment_survives_json_and_pickle_with_its_digest() -> None:
    made = environment(
        setup="echo hello > greeting",
        requires=["git"],
        tools=["bash", "submit"],
        step_verify=VERIFY,
        files={"a/b.txt": "\u00e9\r\n"},
        limits={"step": 5, "steps": 3},
        reference=[{"name": "bash", "arguments": {"command": "true"}}, {"name": "submit"}],
    )
    assert MultiTurnEnvironment.model_validate_json(made.model_dump_json()) == made
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.digest, hash(again)) == (made, made.digest, hash(made))
    assert made.digest != environment().digest
    assert made.model_copy(update={"seed": 4}).digest != made.digest


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "single"}, "multi_turn"),
        ({"tools": []}, "tools"),
        ({"tools": ["bash", "bash"]}, "tools names one twice"),
        ({"tools": ["shell"]}, "'write_file'"),
        ({"requires": ["/bin/sh"]}, "requires"),
        ({"limits": {"step": 0}}, "greater than 0"),
        ({"limits": {"step": float("nan")}}, "limits.step"),
        ({"limits": {"steps": 2.5}}, "limits.steps"),
        ({"limits": {"disk": 1 << 16}, "files": {"big": "x" * 70_000}}, "raise limits.disk"),
        ({"limits": {"files": 64}, "files": {f"f{n}": "" for n in range(65)}}, "limits.files"),
        ({"files": {"../up": ""}}, "isn't a safe relative path"),
        ({"reference": [{"name": "bash", "command": "ls"}]}, "Extra inputs"),
        ({"reference": [{"name": "bash"}]}, "command is missing"),
        (
            {"reference": [{"name": "bash", "arguments": {"command": "ls"}}], "tools": ["submit"]},
            "no tool 'bash'",
        ),
        ({"setpu": "true"}, "Extra inputs"),
        ({"seed": -1}, "seed"),
        ({"setup": "x" * ((1 << 20) + 1)}, "setup"),
    ],
)
def test_a_contradiction_is_an_error_that_names_it(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="validation error") as caught:
        environment(**fields)
    assert says in str(caught.value)


def test_it_is_frozen() -> None:
    made = environment()
    with pytest.raises(ValueError, match="frozen"):
        made.task = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="steps"):
        made.model_copy(update={"limits": {"steps": 0}})


def test_the_verifier_has_room_for_the_whole_work_directory_twice() -> None:
    limits = environment(limits={"disk": 1 << 20, "files": 100, "verify": 7}).verify_limits
    assert limits.wall == 7
    assert limits.disk > 2 << 20
    assert limits.files > 200
