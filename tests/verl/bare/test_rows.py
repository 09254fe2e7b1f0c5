"""Rows for verl made of environments, and rows that it couldn't train on, found before it tries."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import Case, Cases, Environment, load_environment, load_suite
from deepgym.environments import list_environments, list_multi_turn_environments, load_multi_turn_environment
from deepgym.environments.prompts import prompt_text
from deepgym.exceptions import InvalidEnvironmentError, MissingPackageError, UnknownNameError
from deepgym.integrations.labels import TaskLabels
from deepgym_verl import verl_rows, write_parquet
from deepgym_verl.judge import label_of
from deepgym_verl.rows import RowsError, check_rows

GREET = Environment(
    name="greet",
    task="Say HELLO.",
    verify=Cases(cases=(Case(stdin="", stdout="HELLO secret-42\n"),)),
    reference="print('HELLO secret-42')",
)


def test_a_row_is_a_prompt_a_source_and_the_environments_name() -> None:
    assert verl_rows("two_sum") == [
        {
            "data_source": "deepgym/two_sum",
            "prompt": [{"role": "user", "content": prompt_text(load_environment("two_sum"))}],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": "two_sum"},
            "extra_info": {"index": 0, "env": "two_sum", "split": "train", "need_tools_kwargs": False},
            "agent_name": "deepgym_single_turn",
        }
    ]


def test_each_kind_of_environment_gets_its_agent_loop() -> None:
    rows = verl_rows(["two_sum", "fix_the_program", GREET])
    assert [row["agent_name"] for row in rows] == [
        "deepgym_single_turn",
        "deepgym_agent",
        "deepgym_single_turn",
    ]
    task = load_multi_turn_environment("fix_the_program").task
    assert rows[1]["prompt"] == [{"role": "user", "content": task}]


def test_the_loops_of_rows_are_those_that_verl_is_told_of() -> None:
    from deepgym_verl.plugin import LOOPS

    assert {row["agent_name"] for row in verl_rows(["two_sum", "fix_the_program"])} == set(LOOPS)


def test_without_an_agent_name_there_is_no_such_column() -> None:
    assert all("agent_name" not in row for row in verl_rows(["easy", "fix_the_program"], agent_name=None))


def test_an_agent_loop_of_ones_own_is_taken_as_it_is() -> None:
    assert {row["agent_name"] for row in verl_rows("easy", agent_name="mine")} == {"mine"}


@pytest.mark.parametrize(
    ("env", "loop"), [("two_sum", "deepgym_agent"), ("fix_the_program", "deepgym_single_turn")]
)
def test_an_agent_loop_that_is_not_for_the_environment_is_refused(env: str, loop: str) -> None:
    with pytest.raises(RowsError, match=f"environment '{env}' needs the agent loop deepgym_.*, not {loop}"):
        verl_rows(env, agent_name=loop)


def test_a_suites_rows_share_a_source_and_single_ones_have_their_own() -> None:
    assert {row["data_source"] for row in verl_rows("easy")} == {"deepgym/easy"}
    assert {row["data_source"] for row in verl_rows(load_suite("hard"))} == {"deepgym/hard"}
    mixed = verl_rows(["easy", "coin_change"])
    assert [row["data_source"] for row in mixed[-2:]] == ["deepgym/easy", "deepgym/coin_change"]
    assert {row["data_source"] for row in verl_rows("easy", data_source="held/out")} == {"held/out"}


def test_a_file_of_tasks_and_a_folder_are_taken_too(tmp_path: Path) -> None:
    task = {
        "task_id": 1,
        "text": "Add.",
        "code": "def add(a, b):\n    return a + b",
        "test_list": ["assert add(1, 2) == 3"],
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(task) + "\n")
    folder = tmp_path / "number"
    folder.mkdir()
    (folder / "environment.toml").write_text(
        'name = "number"\ntask = "Print 42."\n[verify]\nkind = "cases"\n[[verify.cases]]\nstdin = ""\nstdout = "42"\n'
    )
    rows = verl_rows([tmp_path / "mine.jsonl", str(folder)])
    assert [(row["data_source"], row["extra_info"]["env"]) for row in rows] == [
        ("deepgym/mine", "mine/1"),
        ("deepgym/number", "number"),
    ]


def test_a_system_message_and_an_instruction_are_said() -> None:
    (row,) = verl_rows(GREET, system="Be brief.", instruction="In bash.", split="test")
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say HELLO.\n\nIn bash."},
    ]
    assert row["extra_info"]["split"] == "test"


def test_repeated_rows_are_numbered_on_and_share_nothing() -> None:
    rows = verl_rows(["two_sum", "coin_change"], repeat=3)
    assert [row["extra_info"]["index"] for row in rows] == list(range(6))
    assert [row["extra_info"]["env"] for row in rows] == ["two_sum", "coin_change"] * 3
    rows[0]["prompt"][0]["content"] = rows[0]["extra_info"]["env"] = "changed"
    assert rows[2] == {**verl_rows("two_sum")[0], "extra_info": {**rows[2]["extra_info"], "index": 2}}


def test_every_environment_that_there_is_makes_a_row_that_its_grader_understands() -> None:
    names = [*list_environments(), *list_multi_turn_environments()]
    labels = TaskLabels(None, "this run")
    for name, row in zip(names, verl_rows(names), strict=True):
        label = label_of(row["extra_info"], row["reward_model"]["ground_truth"], row["data_source"])
        assert labels.environment(label).name == name


def test_no_row_holds_a_hidden_test_or_a_reference() -> None:
    assert "secret-42" not in json.dumps(verl_rows(GREET))
    for name in list_environments():
        env = load_environment(name)
        assert env.reference
        assert env.reference.strip() not in verl_rows(env)[0]["prompt"][0]["content"]
    for name in list_multi_turn_environments():
        task = load_multi_turn_environment(name)
        (row,) = verl_rows(task)
        assert row["prompt"] == [{"role": "user", "content": task.task}]
        assert set(row["extra_info"]) == {"index", "env", "split", "need_tools_kwargs"}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ([], "no environment: give at least one"),
        (["easy", "two_sum"], "two environments are named 'two_sum'"),
        ([GREET, GREET], "two environments are named 'greet'"),
        (5, "5 is no environment, suite, name or folder"),
    ],
)
def test_what_makes_no_rows_is_refused_with_the_reason(env: Any, said: str) -> None:
    with pytest.raises(RowsError, match=said):
        verl_rows(env)


def test_an_unknown_name_is_refused_with_the_closest_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="two_sum"):
        verl_rows("two_sums")
    with pytest.raises(UnknownNameError, match="no file"):
        verl_rows("missing.jsonl")
    (tmp_path / "environment.toml").write_text("name = 3\n")
    with pytest.raises(InvalidEnvironmentError):
        verl_rows(tmp_path)


def test_no_repetition_and_an_empty_prompt_are_refused() -> None:
    with pytest.raises(RowsError, match="repeat=0: at least 1 row"):
        verl_rows("easy", repeat=0)
    blank = GREET.model_copy(update={"task": " \n"})
    with pytest.raises(RowsError, match="row 0: the prompt is empty"):
        verl_rows(blank, instruction="")


def broken() -> Iterator[tuple[str, Any, str]]:
    yield "prompt", "text", "row 1: the prompt is 'text', not messages"
    yield "prompt", None, "row 1: the prompt is None, not messages"
    yield "prompt", [], "row 1: the prompt is empty"
    yield "prompt", [{"role": "user", "content": " "}], "row 1: the prompt is empty"
    yield "prompt", [{"content": "x"}], "row 1: a message of the prompt has no role or no content"
    yield "prompt", [{"role": "user"}], "row 1: a message of the prompt has no role or no content"
    yield "prompt", ["x"], "row 1: a message of the prompt has no role or no content"
    yield "data_source", "", "row 1: data_source is '', not a name"
    yield "data_source", 3, "row 1: data_source is 3, not a name"
    yield "reward_model", {}, r"row 1: verl reads reward_model\['ground_truth'\]"
    yield "reward_model", "rule", r"row 1: verl reads reward_model\['ground_truth'\]"
    yield "agent_name", "", "row 1: agent_name is '', not an agent loop's name"
    yield "agent_name", None, "row 1: agent_name is None, not an agent loop's name"
    for name in ("raw_prompt", "index", "tools_kwargs", "interaction_kwargs", "dummy_tensor", "uid"):
        yield name, 1, f"row 1: column '{name}' is one that verl itself adds"


@pytest.mark.parametrize(("column", "value", "said"), list(broken()))
def test_a_row_that_verl_could_not_use_is_named(column: str, value: Any, said: str, tmp_path: Path) -> None:
    rows = verl_rows(["two_sum", "coin_change"])
    rows[1][column] = value
    with pytest.raises(RowsError, match=said):
        write_parquet(tmp_path / "rows.parquet", rows)
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_another_source_must_name_its_environment() -> None:
    (row,) = verl_rows("two_sum", data_source="held/out")
    check_rows([row])
    lacking = copy.deepcopy(row)
    del lacking["extra_info"]["env"]
    with pytest.raises(RowsError, match=r"row 0: extra_info\['env'\] doesn't name the environment"):
        check_rows([lacking])
    check_rows([{**lacking, "data_source": "deepgym/two_sum"}])


def test_rows_whose_columns_differ_are_refused() -> None:
    rows = verl_rows("two_sum") + verl_rows("coin_change", agent_name=None)
    with pytest.raises(
        RowsError, match="row 1: every row needs the same columns, and not all have agent_name"
    ):
        check_rows(rows)
    with pytest.raises(RowsError, match="there are no rows"):
        check_rows([])


def test_a_file_of_a_format_that_verl_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match=r"by its ending; call it rows\.parquet"):
        write_parquet(tmp_path / "rows.arrow", verl_rows("two_sum"))


def test_without_pyarrow_the_message_has_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r'run: pip install "deepgym-verl\[rows\]==1\.0\.0"'):
        write_parquet(tmp_path / "rows.parquet", verl_rows("two_sum"))
    assert list(tmp_path.iterdir()) == []
