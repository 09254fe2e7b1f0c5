"""The page's file, trained by ``axolotl train``; and ``axolotl deepgym config`` and ``check``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from .axo import base, letters, write

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "training" / "axolotl.md"


def blocks(language: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(PAGE.read_text(encoding="utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info.strip() == language]


def command(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    axolotl = Path(sys.executable).with_name("axolotl")
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [axolotl, *args], cwd=cwd, env=environment, capture_output=True, text=True, timeout=400, check=False
    )


@pytest.mark.local_sandbox
def test_the_pages_file_trains_as_it_stands(tiny_model: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(blocks("yaml")[0])
    arguments = ("--base-model", tiny_model, "--max-steps", "2", "--launcher", "python")
    done = command("train", "run.yaml", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (state,) = (tmp_path / "out").glob("**/trainer_state.json")
    logs = [log for log in json.loads(state.read_text())["log_history"] if "reward" in log]
    assert [log["deepgym/verdict_rate"] for log in logs] == [1.0, 1.0]
    assert [log["deepgym/samples"] for log in logs] == [8.0, 8.0]
    assert [log["rewards/deepgym/mean"] for log in logs] == [0.0, 0.0], "noise is no answer"
    assert "MaskedRateCallback" in json.loads(state.read_text())["stateful_callbacks"]


def invoke(*args: str) -> Any:
    from axolotl.cli.main import cli
    from click.testing import CliRunner

    return CliRunner().invoke(cli, ["deepgym", *args])


@pytest.mark.usefixtures("axolotl")
def test_config_writes_the_pages_file(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    line = next(
        text
        for text in PAGE.read_text(encoding="utf-8").split("`")
        if text.startswith("axolotl deepgym config")
    )
    arguments = (
        line.replace("...", "HuggingFaceTB/SmolLM2-135M-Instruct").replace("run.yaml", str(run)).split()[2:]
    )
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    assert run.read_text() == blocks("yaml")[0]
    assert run.read_text() in (ROOT / "examples" / "axolotl" / "grpo.yaml").read_text()
    again = invoke(*arguments)
    assert again.exit_code == 1
    assert "can't be written: [Errno 17] File exists" in again.output


@pytest.mark.usefixtures("axolotl")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--env", "two_sums"), "unknown environment 'two_sums'"),
        (("--env", "two_sum", "--suite", "easy"), "give environments or a suite, one of the two"),
        ((), "give environments or a suite, one of the two"),
    ],
)
def test_config_writes_no_file_that_would_not_train(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = invoke("config", str(tmp_path / "run.yaml"), "--model", "m", *arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "run.yaml").exists()


@pytest.mark.local_sandbox
@pytest.mark.usefixtures("axolotl")
def test_check_finds_the_pages_file_good_and_asks_the_installed_trainer(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(blocks("yaml")[0])
    done = invoke("check", str(run))
    lines = {line[6:].partition(":")[0]: line for line in done.output.splitlines()}
    assert done.exit_code == 0, done.output
    assert not [line for line in lines.values() if line.startswith(("warn", "fail"))], done.output
    assert "2; of 2 the reference got 1 and an empty answer 0" in lines["environments"]
    assert "a run without a verdict is left out of its group" in lines["mode"]
    assert "875 s, of 1800 s that ranks wait" in lines["deadline"]
    assert "it moves no sibling" in lines["a row without a verdict"]
    assert "out of the loss too; tokens in the loss, by row: [2, 2, 0, 2]" in done.output
    assert "Axolotl finds it by that name" in lines["deepgym_axolotl.reward"]
    assert "Axolotl finds it by that name" in lines["deepgym_axolotl.transform"]
    assert "its methods are those that this Axolotl calls" in lines["deepgym_axolotl.DeepGymPlugin"]


@pytest.mark.local_sandbox
@pytest.mark.usefixtures("axolotl")
def test_check_finds_what_is_wrong_with_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgym_axolotl.versions.version_of", lambda package: "0.19.0")
    env = letters(tmp_path / "letters")
    (tmp_path / "letters" / "reference.py").write_text("\x01")
    (tmp_path / "rows.jsonl").write_text('{"env_id": "letters"}\n\n{"env_id": "other"}\n')
    rows = {"path": str(tmp_path / "rows.jsonl"), "ds_type": "json", "type": "deepgym_axolotl.transform"}
    cfg = base(
        "model",
        tmp_path,
        plugins=[],
        datasets=[rows],
        deepgym={"envs": [env]},
        logging_steps=500,
        trl={"reward_funcs": ["deepgym_axolotl.reward", "mine.lengths"], "beta": 0.1, "async_prefetch": True},
    )
    done = invoke("check", "--quick", str(write(cfg, tmp_path)))
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    for part in (
        "fail mode: trl.async_prefetch means Axolotl's asynchronous trainer",
        "remedy: remove it, or set deepgym.no_verdict: group_mean",
        "fail plugin: Axolotl ignores the deepgym: section",
        "warn reward_funcs: what mine.lengths give(s) a row without a verdict is trained on",
        "warn loss: the KL term trains on rows without a verdict too",
        "warn alarm: it hears of an outage every 500 steps",
        "line 2: row 0, column 'env_id': unknown environment 'other'",
        "remedy: skip_prepare_dataset: true",
        "fail environments: letters: its reference gets 0.25, an empty answer 0.0",
    ):
        assert part in said, done.output


@pytest.mark.usefixtures("axolotl")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1\n", "holds no keys"),
        ("a: [\n", "can't be read"),
        ("rl: grpo\n", "names neither deepgym_axolotl.reward nor a deepgym: section"),
        ("deepgym: {enviroment: two_sum}\n", "deepgym.enviroment: there is no such key"),
        ("rl: grpo\ndeepgym: {env: two_sums}\n", "fail  environments: unknown environment 'two_sums'"),
        (
            "rl: grpo\ndeepgym: {env: two_sum, deadline: 1}\n",
            "fail  deadline: environment 'two_sum': a deadline of 1 s",
        ),
        ("rl: dpo\ndeepgym: {}\n", "fail  mode: rl: dpo calls no reward function"),
    ],
)
def test_check_says_what_is_wrong_with_a_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    done = invoke("check", "--quick", str(tmp_path / "run.yaml"))
    assert done.exit_code == 1
    assert said in done.output


@pytest.mark.usefixtures("axolotl")
def test_check_knows_that_a_newer_axolotl_loads_the_plugin_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepgym_axolotl.versions.version_of", lambda package: "0.21.0")
    cfg = base("model", tmp_path, plugins=[], deepgym={})
    done = invoke("check", "--quick", str(write(cfg, tmp_path)))
    assert done.exit_code == 0, done.output
    assert "ok    plugin: Axolotl loads it by itself, from 0.21 on" in done.output


@pytest.mark.usefixtures("axolotl")
@pytest.mark.parametrize("index", [1, 2, 3])
def test_the_pages_other_blocks_fit_its_file(tiny_model: str, tmp_path: Path, index: int) -> None:
    from .axo import load

    cfg = {
        **yaml.safe_load(blocks("yaml")[0]),
        **yaml.safe_load(blocks("yaml")[index]),
        "base_model": tiny_model,
    }
    loaded = load({**cfg, "output_dir": str(tmp_path / "out")}, tmp_path)
    assert loaded.deepgym is not None


def test_the_readmes_lines_stand_in_the_pages_file() -> None:
    text = (ROOT / "packages" / "deepgym-axolotl" / "README.md").read_text(encoding="utf-8")
    (part,) = [
        token.content for token in MarkdownIt("commonmark").parse(text) if token.info.strip() == "yaml"
    ]
    whole = yaml.safe_load(blocks("yaml")[0])
    for key, value in yaml.safe_load(part).items():
        assert value == whole[key] or value.items() <= whole[key].items()


@pytest.mark.usefixtures("axolotl")
def test_the_pages_rows_train(tiny_model: str, tmp_path: Path) -> None:
    from .test_loader import rows_of, with_rows

    (lines,) = blocks("json")
    rows = rows_of(with_rows(tiny_model, tmp_path, lines), tmp_path)
    assert sorted(rows["env_id"]) == ["to_roman", "two_sum"]
