"""Runs what the pages about verl show, and holds their settings and the example's against the installed one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from markdown_it import MarkdownIt
from omegaconf import OmegaConf

from deepgym_verl.recipe import overrides, settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/verl.md"
README = ROOT / "packages/deepgym-verl/README.md"
EXAMPLES = ROOT / "examples/verl"
PAGES = pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
#: The line above a block that isn't run, with the reason.
NO_RUN = re.compile(r"\s*<!-- no-run: \S.* -->")
#: What the example's trainers are in a recipe's words.
KINDS: dict[str, dict[str, Any]] = {
    "grpo": {"env": ["easy", "medium"]},
    "dapo": {"env": ["easy", "medium"], "dapo": True},
    "agent": {"env": ["fix_the_program", "data_cleanup", "http_service"], "response_length": 16384},
    "legacy": {"env": ["easy", "medium"], "legacy": True},
}


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line and text of each block of ``language`` that is to be run."""
    text = page.read_text(encoding="utf-8")
    lines = ["", *text.split("\n")]
    fences = [token for token in MarkdownIt("commonmark").parse(text) if token.type == "fence" and token.map]
    found = [(fence.map[0] + 1, fence.content) for fence in fences if fence.info.strip() == language]
    return [(line, code) for line, code in found if not NO_RUN.match(lines[line - 1])]


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the page's shell blocks."""
    code = "\n".join(code for _, code in blocks(page, "sh"))
    return [shlex.split(line) for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def shown(text: str) -> Iterator[str]:
    """The settings of verl's in a text, whole ones with their values and without."""
    code = " ".join(re.findall(r"`([^`\n]+)`", text) + re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S))
    yield from re.findall(
        r"(?<![\w.])\+?(?:algorithm|actor_rollout_ref|data|ray_kwargs|reward|trainer|transfer_queue)\.[\w.]+\w(?:=\S+)?",
        code,
    )


def composed(given: list[str]) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=given)


def run(arguments: list[str]) -> None:
    from deepgym.cli import main

    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert not exit_info.value.code


@pytest.mark.local_sandbox
@PAGES
def test_a_pages_snippets_run_and_what_they_assert_holds(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "docs_page"}
    for line, code in blocks(page, "python"):
        # Newlines before it, so that a traceback shows the line of the page.
        exec(compile("\n" * line + code, str(page.relative_to(ROOT)), "exec"), namespace)
    assert (tmp_path / "train.parquet").is_file()


@PAGES
def test_the_commands_that_a_page_shows_do_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = [words[1:] for words in commands(page) if words[:2] == ["deepgym", "verl"]]
    assert {words[1] for words in ours} == {"rows", "config"}
    for words in ours:
        run(words)
        said = capsys.readouterr().out
        if words[1] == "config":
            given = [word for word in shlex.split(said.replace("\\\n", " ")) if "=" in word]
            assert len(given) > 12
            composed(given)
        else:
            assert said.endswith(f" in {words[-1]}\n")
    assert {path.name for path in tmp_path.iterdir()} == {"train.parquet", "val.parquet"}


def test_every_command_of_ours_that_is_shown_in_a_line_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = re.findall(r"`(deepgym verl config[^`>]*?)(?: >[^`]*)?`", text)
    options = re.findall(r"`(--[^`]+)`", text)
    assert lines
    assert len(options) > 3
    for line in lines:
        run(line.split()[1:])
    for option in options:
        where = "rows" if option.split()[0] in ("--agent-name", "--data-source", "--repeat") else "config"
        run(["verl", where, "--help"])
        assert option.split()[0] in capsys.readouterr().out, option


@PAGES
def test_a_page_says_that_it_is_run_here_and_pins_what_it_installs(page: Path) -> None:
    assert "\n<!-- needs: verl -->\n" in page.read_text(encoding="utf-8")
    installed = [words[-1] for words in commands(page) if words[:2] == ["pip", "install"]]
    assert installed
    assert all(name.endswith("==1.0.0") for name in installed)


@PAGES
def test_every_setting_that_is_shown_is_one_of_verls(page: Path) -> None:
    plain = composed([])
    known = {"reward.custom_reward_function.reward_kwargs", "reward.reward_kwargs"}
    names = {each.lstrip("+").partition("=")[0] for each in shown(page.read_text(encoding="utf-8"))}
    assert len(names) > (10 if page == PAGE else 3)
    for name in sorted(names):
        above, _, last = name.rpartition(".")
        assert above in known or name in known or last in list(OmegaConf.select(plain, above).keys()), name


def test_the_blocks_of_settings_are_what_a_recipe_says() -> None:
    said = [
        code.split()
        for _, code in blocks(PAGE, "text")
        if code.startswith(("algorithm.", "actor_rollout_ref."))
    ]
    single, agent = said
    assert set(single) <= set(overrides("easy"))
    assert len(single) == 4
    assert set(agent) <= set(overrides("fix_the_program"))
    assert [code.split() for _, code in blocks(README, "text")] == [single]


def test_the_tables_of_options_and_of_extras_are_what_there_is() -> None:
    from dataclasses import fields
    from typing import get_args

    from deepgym_verl.info import KEYS
    from deepgym_verl.options import Lost, Options

    text = PAGE.read_text(encoding="utf-8")
    assert cells(text, "`reward_kwargs`") == [field.name for field in fields(Options)]
    assert cells(text, "`lost`") == list(get_args(Lost))
    assert cells(text, "`reward_extra_info`") == list(KEYS)


def cells(text: str, head: str) -> list[str]:
    """The names in the first column of the table with that head."""
    table = text.partition(f"| {head} | |\n")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[1:]]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize(
    "name", ["grpo", "grpo_vectorized", "rloo", "rloo_vectorized", "gpg", "deepgym_grpo", "deepgym_rloo"]
)
def test_the_table_of_advantages_is_what_verl_computes(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Why masking alone")[2]
    (row,) = [line for line in text.splitlines() if line.startswith("|") and f"`{name}`" in line]
    alone, beside = (
        [float(number) for number in re.findall(r"-?\d*\.\d+", cell)] for cell in row.split("|")[2:4]
    )
    assert advantages(name, [1, 1, 0]) == pytest.approx(alone, abs=0.006)
    assert advantages(name, [1, 1, 0, None])[:3] == pytest.approx(beside, abs=0.006)


def advantages(name: str, scores: list[float | None]) -> list[float]:
    """By verl's estimator, of one prompt's samples with a token each."""
    import numpy
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    mask = torch.tensor([[0.0 if score is None else 1.0] for score in scores])
    found, _ = get_adv_estimator_fn(name)(
        token_level_rewards=torch.tensor([[float(score or 0)] for score in scores]),
        response_mask=mask,
        index=numpy.array(["prompt"] * len(scores), dtype=object),
        config=composed([]).algorithm,
    )
    return [float(each) for each in found[:, 0]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_says_what_a_recipe_does_and_verl_takes_it(kind: str, tmp_path: Path) -> None:
    from verl.utils.config import validate_config

    arguments = started(tmp_path, kind, "Qwen/Qwen3-0.6B", "trainer.total_training_steps=20")
    assert arguments[:2] == ["-m", "verl.trainer.main_ppo"]
    assert arguments[-1] == "trainer.total_training_steps=20"
    config = composed(arguments[2:])
    files = {"train": str(tmp_path / "train.parquet"), "val": str(tmp_path / "val.parquet")}
    given = {
        "model": "Qwen/Qwen3-0.6B",
        "prompt_length": 2048,
        "response_length": 4096,
        **files,
        **KINDS[kind],
    }
    wanted = settings(**given)
    for key, value in wanted.items():
        assert OmegaConf.select(config, key.lstrip("+")) == value, key
    assert {argument.partition("=")[0] for argument in arguments[2:-1]} == set(wanted)
    validate_config(config, use_reference_policy=False, use_critic=False)


def started(folder: Path, *arguments: str) -> list[str]:
    """What the example starts verl with, once it has written its rows."""
    (folder / "bin").mkdir()
    stub = folder / "bin" / "python"
    stub.write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" > {shlex.quote(str(folder / "said"))}\n')
    stub.chmod(0o755)
    deepgym = folder / "bin" / "deepgym"
    deepgym.write_text(f"#!{sys.executable}\nfrom deepgym.cli import main\nmain()\n")
    deepgym.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    command = ["bash", str(EXAMPLES / "run.sh"), *arguments]
    subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, check=True, stdout=subprocess.DEVNULL
    )
    return (folder / "said").read_text(encoding="utf-8").split("\0")[:-1]


def test_the_example_says_how_it_is_called_and_pins_what_it_installs() -> None:
    command = ["bash", str(EXAMPLES / "run.sh"), "ppo", "m"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert '"deepgym-verl[trainer]==1.0.0"' in (EXAMPLES / "run.sh").read_text(encoding="utf-8")


@PAGES
def test_each_name_that_a_page_imports_is_public(page: Path) -> None:
    import importlib

    text = "\n".join(code for _, code in blocks(page, "python"))
    imported = re.findall(r"^from (deepgym_verl[\w.]*) import (.+)$", text, re.MULTILINE)
    assert imported
    for module, names in imported:
        public = importlib.import_module(module).__all__
        assert {name.strip() for name in names.split(",")} <= set(public), module
