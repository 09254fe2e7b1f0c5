"""``trl grpo`` and ``trl rloo`` from a YAML file alone: their real command line, and the real local sandbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from deepgym_trl.dataset import prompt_rows, write_jsonl

pytestmark = [pytest.mark.local_sandbox]

PAGE = Path(__file__).parents[2] / "docs/training/trl.md"
#: Worth 0.25, whatever the answer is: noise earns a number that tells that it was graded.
QUARTER = """
def verify(solution):
    return 0.25 if solution.source() is not None else 0.0
"""


@dataclass(frozen=True)
class Ran:
    code: int
    output: str
    folder: Path

    def logged(self, key: str) -> list[float]:
        """The values of ``key`` in the trainer's own log lines, step by step."""
        found = re.findall(rf"'{re.escape(key)}': '?([^',}}]+)", self.output)
        return [float(value) for value in found]

    def completions(self) -> dict[str, list[Any]]:
        """Columns of all tables of completions."""
        import pandas

        files = sorted(self.folder.glob("runs/*/completions/*.parquet"))
        table: dict[str, list[Any]] = pandas.concat([pandas.read_parquet(file) for file in files]).to_dict(
            "list"
        )
        return table


def trl(command: str, folder: Path, config: str) -> Ran:
    """Run ``trl <command> --config run.yaml`` in ``folder``."""
    return ran([str(Path(sys.executable).with_name("trl")), command], folder, config)


def script(command: str, folder: Path, config: str) -> Ran:
    """The same without the interpreter that only starts the one that trains."""
    import trl

    return ran(
        [sys.executable, str(Path(trl.__file__).with_name("scripts") / f"{command}.py")], folder, config
    )


def ran(command: Sequence[str], folder: Path, config: str) -> Ran:
    (folder / "run.yaml").write_text(config)
    done = subprocess.run(
        [*command, "--config", "run.yaml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, folder)


def of_the_page(model: str) -> str:
    """The page's own YAML file, with a tiny model."""
    tokens = MarkdownIt("commonmark").parse(PAGE.read_text(encoding="utf-8"))
    (config,) = [token.content for token in tokens if token.type == "fence" and token.info == "yaml"]
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in config
    return config.replace("HuggingFaceTB/SmolLM2-135M-Instruct", model)


def quarter(folder: Path) -> str:
    """Path, from ``folder``, of an environment that gives every answer 0.25."""
    made = folder / "quarter"
    made.mkdir()
    (made / "verify.py").write_text(QUARTER)
    (made / "environment.toml").write_text(
        'task = "Say anything."\n[verify]\nkind = "program"\nprogram = "verify.py"\n'
    )
    return "./quarter"


def test_trl_grpo_trains_from_the_pages_yaml_with_rewards_of_the_local_sandbox(
    tiny_model: str, tmp_path: Path
) -> None:
    path = quarter(tmp_path)
    rows = [*prompt_rows(str(tmp_path / path), env_id=path), *prompt_rows("coin_change")]
    assert write_jsonl(tmp_path / "tasks.jsonl", rows) == 2
    run = trl("grpo", tmp_path, of_the_page(tiny_model))
    assert run.code == 0, run.output[-4000:]
    # A generation batch holds a group of four of each row: four times 0.25, and four times noise that fails.
    assert run.logged("rewards/deepgym/mean") == [0.125, 0.125]
    assert run.logged("reward") == [0.125, 0.125]
    assert run.logged("deepgym/judged_mean_score") == [0.125, 0.125]
    assert run.logged("deepgym/verdict_rate") == [1.0, 1.0]
    assert run.logged("deepgym/samples") == [8.0, 8.0]
    table = run.completions()
    graded = set(zip(table["deepgym_env"], table["deepgym_score"], table["deepgym_verdict"], strict=True))
    assert graded == {("quarter", 0.25, "failed"), ("coin_change", 0.0, "failed")}
    assert len(set(table["deepgym_run_id"])) == 16


def test_trl_rloo_trains_with_one_environment_by_its_name_and_no_column(
    tiny_model: str, tmp_path: Path
) -> None:
    rows = [{"prompt": row["prompt"]} for row in prompt_rows("coin_change", repeat=2)]
    write_jsonl(tmp_path / "tasks.jsonl", rows)
    config = of_the_page(tiny_model).replace("deepgym_trl.reward", "deepgym_trl.envs.coin_change")
    run = script("rloo", tmp_path, config.replace("max_steps: 2", "max_steps: 1"))
    assert run.code == 0, run.output[-4000:]
    assert run.logged("rewards/deepgym/mean") == [0.0]
    assert run.logged("deepgym/verdict_rate") == [1.0]
    assert run.logged("deepgym/samples") == [8.0]


def test_a_row_that_names_no_environment_ends_the_run_at_its_first_step_with_the_remedy(
    tiny_model: str, tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "tasks.jsonl", [{"prompt": "Count coins.", "env_id": "coin_chnage"}] * 2)
    run = script("grpo", tmp_path, of_the_page(tiny_model))
    assert run.code != 0
    said = "column 'env_id': unknown environment 'coin_chnage'; did you mean 'coin_change'?"
    assert said in run.output, run.output[-4000:]
    assert run.logged("reward") == []
    assert not list(tmp_path.glob("runs/*/model.safetensors"))


def test_a_name_of_no_environment_in_reward_funcs_says_which_there_are() -> None:
    import deepgym_trl.envs

    with pytest.raises(
        AttributeError, match=r"unknown environment 'coin_chnage'; did you mean 'coin_change'\?"
    ):
        _ = deepgym_trl.envs.coin_chnage


def test_the_rows_of_a_yaml_run_are_what_prompt_rows_made(tmp_path: Path) -> None:
    rows = prompt_rows(["two_sum", "coin_change"], repeat=2)
    write_jsonl(tmp_path / "tasks.jsonl", rows)
    assert [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()] == rows
