"""What ``axolotl train`` makes of a run's file before it trains: its own loader, in this process."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from deepgym.exceptions import UnknownNameError
from deepgym_axolotl.settings import ConfigError

from .axo import PLUGIN, base, fresh, load, write
from .bare.test_modes import BAD

pytestmark = pytest.mark.usefixtures("axolotl")
SECTION = {"envs": ["two_sum", "to_roman"]}


@pytest.mark.parametrize(("changes", "named"), BAD.values(), ids=BAD)
def test_a_bad_mode_ends_the_run_with_reason_and_remedy(
    tiny_model: str, tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(base(tiny_model, tmp_path, deepgym=SECTION, **changes), tmp_path)
    assert named in str(caught.value)
    assert "or set deepgym.no_verdict: group_mean" in str(caught.value)


@pytest.mark.parametrize("name", ["async prefetch", "data producer", "both", "reward workers"])
def test_a_bad_mode_with_the_groups_mean_loads(tiny_model: str, tmp_path: Path, name: str) -> None:
    changes, _ = BAD[name]
    cfg = load(
        base(tiny_model, tmp_path, deepgym={**SECTION, "no_verdict": "group_mean"}, **changes), tmp_path
    )
    assert cfg.deepgym["no_verdict"] == "group_mean"


def test_a_run_of_an_old_axolotl_is_refused(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepgym_axolotl.versions.version_of", lambda package: "0.17.0")
    with pytest.raises(ConfigError, match=r"Axolotl 0\.17\.0 pins a TRL"):
        load(base(tiny_model, tmp_path, deepgym=SECTION), tmp_path)


def test_a_section_without_rows_brings_its_own(tiny_model: str, tmp_path: Path) -> None:
    cfg = load(base(tiny_model, tmp_path, deepgym=SECTION), tmp_path)
    assert [dict(entry)["path"] for entry in cfg.datasets] == ["deepgym"]
    assert cfg.deepgym["envs"] == ["two_sum", "to_roman"] or tuple(cfg.deepgym["envs"]) == tuple(
        SECTION["envs"]
    )
    with pytest.raises(ValueError, match="either datasets or pretraining_dataset is required"):
        load(base(tiny_model, tmp_path), tmp_path)


def test_a_misspelt_key_is_an_error(tiny_model: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"deepgym\.enviroment: there is no such key \(there are: env, envs"
    ):
        load(base(tiny_model, tmp_path, deepgym={"enviroment": "two_sum"}), tmp_path)


def test_an_environment_that_there_is_not_is_an_error(tiny_model: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="two_sum"):
        load(base(tiny_model, tmp_path, deepgym={"env": "two_sums"}), tmp_path)


def test_another_run_is_left_alone(tiny_model: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    rows = {"path": str(tmp_path / "rows.jsonl"), "ds_type": "json", "type": "completion"}
    cfg = base(tiny_model, tmp_path, rl=None, datasets=[rows], trl={"reward_funcs": None})
    with fresh():
        from axolotl.cli.config import load_cfg
        from axolotl.integrations.base import PluginManager

        loaded = load_cfg(str(write(cfg, tmp_path)))
        manager = PluginManager.get_instance()
        assert os.environ.get("DEEPGYM_AXOLOTL") is None
        assert manager.get_training_args(loaded) == {}
        assert manager.load_datasets(loaded) is None
        assert manager.add_callbacks_post_trainer(loaded, None) == []
        assert manager.get_trainer_cls(loaded) is None
        manager.post_trainer_create(loaded, None)
        manager.post_train_unload(loaded)


def test_the_plugins_methods_are_those_that_axolotl_calls() -> None:
    from axolotl.integrations.base import BasePlugin, load_plugin

    plugin = load_plugin(PLUGIN)
    ours = [name for name in vars(type(plugin)) if not name.startswith("_")]
    assert len(ours) == 7
    for name in ours:
        mine, its = getattr(type(plugin), name), getattr(BasePlugin, name)
        assert list(inspect.signature(mine).parameters) == list(inspect.signature(its).parameters)


def test_what_has_come_of_a_file_is_looked_at_too(tiny_model: str, tmp_path: Path) -> None:
    from axolotl.integrations.base import load_plugin

    class AsyncGRPOTrainer:
        args = SimpleNamespace(async_prefetch=True, generation_batch_size=12)
        accelerator = SimpleNamespace(num_processes=2)
        num_generations = 4

    plugin = load_plugin(PLUGIN)
    with fresh():
        plugin.register(base(tiny_model, tmp_path, deepgym=SECTION))
        with pytest.raises(ConfigError, match=r"trl\.async_prefetch means a trainer which sums"):
            plugin.post_trainer_create(None, AsyncGRPOTrainer())
        plugin.register(base(tiny_model, tmp_path, deepgym={**SECTION, "no_verdict": "group_mean"}))
        with pytest.raises(ConfigError, match="each has 6 rows of a batch"):
            plugin.post_trainer_create(None, AsyncGRPOTrainer())
        AsyncGRPOTrainer.args.generation_batch_size = 16
        plugin.post_trainer_create(None, AsyncGRPOTrainer())


def test_a_section_that_no_reward_function_reads_is_warned_of(
    tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(base(tiny_model, tmp_path, deepgym=SECTION, trl={"reward_funcs": ["mine.reward"]}), tmp_path)
    assert "trl.reward_funcs (mine.reward) doesn't name deepgym_axolotl.reward" in caplog.text


def rows_of(cfg: dict[str, Any], folder: Path) -> Any:
    """The rows that Axolotl trains on."""
    from axolotl.cli.config import load_cfg
    from axolotl.common.datasets import load_preference_datasets
    from axolotl.integrations.base import PluginManager

    with fresh():
        loaded = load_cfg(str(write(cfg, folder)))
        found = PluginManager.get_instance().load_datasets(loaded)
        return (found or load_preference_datasets(cfg=loaded)).train_dataset


def with_rows(model: str, folder: Path, lines: str, **changes: Any) -> dict[str, Any]:
    (folder / "rows.jsonl").write_text(lines)
    entry = {"path": str(folder / "rows.jsonl"), "ds_type": "json", "type": "deepgym_axolotl.transform"}
    return base(model, folder, datasets=[entry], skip_prepare_dataset=True, **changes)


def test_the_sections_rows_are_as_many_as_a_batch_needs(tiny_model: str, tmp_path: Path) -> None:
    rows = rows_of(base(tiny_model, tmp_path, deepgym=SECTION, gradient_accumulation_steps=4), tmp_path)
    assert rows["env_id"] == ["two_sum", "to_roman"] * 4
    assert "two_sum(nums: list[int]" in rows[0]["prompt"][0]["content"]


def test_a_row_gets_the_prompt_of_its_environment_or_keeps_its_own(tiny_model: str, tmp_path: Path) -> None:
    own = [{"role": "user", "content": "Mine."}]
    lines = '{"env_id": "two_sum", "level": 1}\n{"env_id": "to_roman", "level": 2, "prompt": %s}\n'
    lines %= str(own).replace("'", '"')
    rows = rows_of(with_rows(tiny_model, tmp_path, lines), tmp_path)
    by_name = {row["env_id"]: row for row in rows}
    assert by_name["to_roman"]["prompt"] == own
    assert "two_sum(nums: list[int]" in by_name["two_sum"]["prompt"][0]["content"]
    assert by_name["two_sum"]["level"] == 1


def test_a_model_without_a_chat_template_gets_text(tiny_model: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "plain")
    changes = {"tokenizer_config": str(tmp_path / "plain")}
    lines = '{"env_id": "two_sum"}\n'
    for cfg in (
        base(tiny_model, tmp_path, deepgym=SECTION, **changes),
        with_rows(tiny_model, tmp_path, lines, **changes),
    ):
        prompt = rows_of(cfg, tmp_path)[0]["prompt"]
        assert isinstance(prompt, str)
        assert "two_sum(nums: list[int]" in prompt


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"env_id": "two_sums"}', "two_sum"),
        ('{"environment": "two_sum"}', "has no column 'env_id'"),
        ('{"env_id": null}', "must name an environment"),
    ],
)
def test_a_row_that_names_no_environment_stops_the_run(
    tiny_model: str, tmp_path: Path, line: str, said: str
) -> None:
    with pytest.raises(Exception, match=said):
        rows_of(with_rows(tiny_model, tmp_path, line + "\n"), tmp_path)


def test_rows_for_a_function_of_ones_own_need_a_prompt(tiny_model: str, tmp_path: Path) -> None:
    cfg = with_rows(tiny_model, tmp_path, '{"level": 1}\n', trl={"reward_funcs": ["mine.reward"]})
    with pytest.raises(ConfigError, match=r"neither a prompt nor, in the column 'env_id', an environment"):
        rows_of(cfg, tmp_path)


def test_a_bad_mode_is_refused_by_the_rows_where_there_is_no_plugin(tiny_model: str, tmp_path: Path) -> None:
    cfg = with_rows(tiny_model, tmp_path, '{"env_id": "two_sum"}\n', trl={"async_prefetch": True}, plugins=[])
    with pytest.raises(ConfigError, match=r"trl\.async_prefetch means Axolotl's asynchronous trainer"):
        rows_of(cfg, tmp_path)


def test_a_file_that_is_written_reads_as_it_was_meant(tmp_path: Path) -> None:
    from deepgym_axolotl.runfile import run_file

    odd = ["two_sum", "./my envs/a: b", "yes", "1e3", "humaneval/0", "#x"]
    text = run_file("org/model-1.5B", odd, dapo=True, masked=True, group_mean=True, output_dir="C:\\x")
    cfg = yaml.safe_load(text)
    assert cfg["deepgym"] == {"envs": odd, "dapo": True, "no_verdict": "group_mean"}
    assert (cfg["base_model"], cfg["output_dir"]) == ("org/model-1.5B", "C:\\x")
    assert cfg["trainer_cls"] == "deepgym_axolotl.MaskedGRPOTrainer"
    assert yaml.safe_load(run_file("m", suite="easy"))["deepgym"] == {"suite": "easy"}
    for wrong in ({"envs": ["a"], "suite": "easy"}, {}):
        with pytest.raises(ConfigError, match="one of the two"):
            run_file("m", **wrong)  # type: ignore[arg-type]
