"""Rows of ours, read back from their file by verl's own data set, and seen as its workers see them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from pyarrow import parquet

from deepgym.cli import main
from deepgym_verl import overrides, verl_rows, write_parquet
from deepgym_verl.judge import label_of

MIXED = ["two_sum", "fix_the_program", "coin_change"]


def dataset(path: Path, model: str, cache: Path, *more: str) -> Any:
    """What verl makes of the file."""
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    with initialize_config_module("verl.trainer.config", version_base=None):
        cached = f"+data.cache_dir={cache}"
        config = compose("ppo_trainer", overrides=[*overrides(train=str(path)), cached, *more])
    return RLHFDataset(config.data.train_files, AutoTokenizer.from_pretrained(model), config.data)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "train.parquet"
    assert write_parquet(path, verl_rows(MIXED, system="Be brief.", repeat=2)) == 6
    return path


def test_verls_data_set_reads_the_rows_back_as_they_were(
    written: Path, tiny_model: str, tmp_path: Path
) -> None:
    made = verl_rows(MIXED, system="Be brief.", repeat=2)
    found = dataset(written, tiny_model, tmp_path, "+data.filter_prompts=False")
    assert len(found) == 6
    for wanted, row in zip(made, found, strict=True):
        assert {name: row[name] for name in wanted} == wanted
        assert row["raw_prompt"] == wanted["prompt"]
        assert (row["index"], row["tools_kwargs"], row["interaction_kwargs"]) == (
            wanted["extra_info"]["index"],
            {},
            {},
        )


def test_a_worker_finds_the_environment_and_the_loop_of_each_row(
    written: Path, tiny_model: str, tmp_path: Path
) -> None:
    from verl.utils.dataset.rl_dataset import collate_fn

    from deepgym_verl.loops import label_in

    batch = collate_fn(list(dataset(written, tiny_model, tmp_path)))
    rows = [{name: batch[name][number] for name in batch} for number in range(6)]
    assert [label_in(row) for row in rows] == MIXED * 2
    scored = [
        label_of(row["extra_info"], row["reward_model"]["ground_truth"], row["data_source"]) for row in rows
    ]
    assert scored == MIXED * 2
    assert list(batch["agent_name"]) == ["deepgym_single_turn", "deepgym_agent", "deepgym_single_turn"] * 2


def test_verl_can_leave_out_prompts_that_are_too_long(written: Path, tiny_model: str, tmp_path: Path) -> None:
    lengths = ("data.filter_overlong_prompts=True", "data.filter_overlong_prompts_workers=null")
    assert len(dataset(written, tiny_model, tmp_path, *lengths, "data.max_prompt_length=4000")) == 6
    assert len(dataset(written, tiny_model, tmp_path, *lengths, "data.max_prompt_length=9")) == 0


def test_the_command_writes_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "train.parquet"
    with pytest.raises(SystemExit) as exit_info:
        main(["verl", "rows", "easy", "--out", str(out), "--json"])
    assert not exit_info.value.code
    assert json.loads(capsys.readouterr().out)["rows"] == len(verl_rows("easy"))
    assert parquet.read_table(out).to_pylist() == verl_rows("easy")


def test_a_file_that_was_there_stays_whole_if_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "train.parquet"
    write_parquet(out, verl_rows("two_sum"))

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_parquet(out, verl_rows("coin_change"))
    assert [path.name for path in tmp_path.iterdir()] == ["train.parquet"]
    assert parquet.read_table(out).to_pylist() == verl_rows("two_sum")


def test_a_file_in_a_folder_that_is_not_there_is_an_error_of_the_systems(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_parquet(tmp_path / "missing" / "train.parquet", verl_rows("two_sum"))
