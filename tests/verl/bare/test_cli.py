"""``deepgym verl``: what it prints and writes, and how it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deepgym.cli import main
from deepgym_verl import overrides, rows
from deepgym_verl.plugin import LOOPS
from deepgym_verl.recipe import settings
from deepgym_verl.spelling import config_file, shell_command

#: Runs a command, and says which modules it loaded that it shouldn't.
LOADED = """
import sys
from deepgym.cli import main
try:
    main(["verl", *sys.argv[1:]])
except SystemExit as ended:
    assert not ended.code, ended.code
heavy = {"verl", "torch", "ray", "hydra", "omegaconf", "transformers", "pandas"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["verl", *arguments])
    said = capsys.readouterr()
    return int(exit_info.value.code or 0), said.out, said.err


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, object]]]:
    """What is written, where there is no pyarrow to write it."""
    found: list[list[dict[str, object]]] = []

    def write(path: Path, made: list[dict[str, object]]) -> int:
        rows.check_rows(made)
        found.append(made)
        return len(made)

    monkeypatch.setattr(rows, "write_parquet", write)
    return found


def test_agent_loops_prints_the_path_of_a_file_with_both_loops(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "agent-loops")
    path = Path(out.removesuffix("\n"))
    entries = re.findall(r"- name: (\S+)\n  _target_: (\S+)\n", path.read_text(encoding="utf-8"))
    assert (code, path.is_absolute(), dict(entries)) == (0, True, LOOPS)
    assert err == f"actor_rollout_ref.rollout.agent.agent_loop_config_path={path}\n"


def test_rows_writes_what_the_function_makes(
    written: list[list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--system", "Be brief.", "--instruction", "In Python.", "--split", "test", "--repeat", "2"]
    code, out, err = run(capsys, "rows", "two_sum", "fix_the_program", "--out", "a.parquet", *options)
    made = rows.verl_rows(
        ["two_sum", "fix_the_program"], system="Be brief.", instruction="In Python.", split="test", repeat=2
    )
    assert (code, err, written) == (0, "", [made])
    assert out == "4 rows for deepgym_agent and deepgym_single_turn in a.parquet\n"


def test_rows_can_leave_the_agent_loop_out_or_name_another(
    written: list[list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    without = run(capsys, "rows", "two_sum", "--out", "a.parquet", "--agent-name", "none")
    assert without == (0, "1 row, without an agent loop in a.parquet\n", "")
    named = run(capsys, "rows", "two_sum", "--out", "a.parquet", "--agent-name", "mine", "--data-source", "x")
    assert named == (0, "1 row for mine in a.parquet\n", "")
    assert [list(made[0])[-1] for made in written] == ["extra_info", "agent_name"]
    assert written[1][0]["data_source"] == "x"


def test_rows_says_as_json_what_it_wrote(
    written: list[list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "rows", "easy", "--out", "a.parquet", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "path": "a.parquet",
        "rows": len(written[0]),
        "agent_names": ["deepgym_single_turn"],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope", "--out", "a.parquet"], "error: unknown environment 'nope'"),
        (["easy", "two_sum", "--out", "a.parquet"], "error: two environments are named 'two_sum'"),
        (["easy", "--out", "a.csv"], "error: a.csv: verl tells a file's format by its ending"),
        (
            ["two_sum", "--out", "a.parquet", "--agent-name", "deepgym_agent"],
            "error: environment 'two_sum' needs",
        ),
        (["missing.jsonl", "--out", "a.parquet"], "error: no file 'missing.jsonl'"),
    ],
)
def test_rows_that_cannot_be_made_end_with_status_2_and_the_reason(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "rows", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(said)


def test_a_file_that_cannot_be_written_is_a_matter_of_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path, made: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(rows, "write_parquet", refuse)
    code, out, err = run(capsys, "rows", "two_sum", "--out", "a.parquet")
    assert (code, out) == (2, "")
    assert err == "error: a.parquet can't be written: [Errno 13] Permission denied: 'a.parquet'\n"


def test_rows_without_pyarrow_ends_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, out, err = run(capsys, "rows", "two_sum", "--out", "a.parquet")
    assert (code, out) == (2, "")
    assert 'run: pip install "deepgym-verl[rows]==1.0.0"' in err


def test_config_prints_verls_command_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--train", "t.parquet", "--val", "v.parquet", "--model", "m", "--gpus", "2", "--batch", "16"]
    given = {"train": ["t.parquet"], "val": ["v.parquet"], "model": "m", "gpus": 2, "batch": 16}
    assert run(capsys, "config", "easy", *options) == (
        0,
        shell_command(overrides(["easy"], **given)) + "\n",
        "",
    )


def test_every_option_of_config_says_what_the_argument_does(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        *["-n", "4", "--prompt-length", "1024", "--response-length", "4096", "--estimator", "deepgym_rloo"],
        *[
            "--trainer-mode",
            "colocate_async",
            "--agent",
            "--tool-format",
            "glm",
            "--dapo",
            "--metric",
            "score",
        ],
        *[
            "--mode",
            "docker",
            "--max-parallel",
            "3",
            "--max-sessions",
            "2",
            "--deadline",
            "900",
            "--lost",
            "raise",
        ],
    ]
    wanted = overrides(
        **{"n": 4, "prompt_length": 1024, "response_length": 4096, "estimator": "deepgym_rloo"},
        **{
            "trainer_mode": "colocate_async",
            "agent": True,
            "tool_format": "glm",
            "dapo": True,
            "metric": "score",
        },
        **{"mode": "docker", "max_parallel": 3, "max_sessions": 2, "deadline": 900.0, "lost": "raise"},
    )
    code, out, _ = run(capsys, "config", "--json", *options)
    assert (code, json.loads(out)) == (0, wanted)
    code, out, _ = run(capsys, "config", "two_sum", "--legacy", "--json")
    assert (code, json.loads(out)) == (0, overrides(["two_sum"], legacy=True))
    code, out, _ = run(capsys, "config", "two_sum", "--overlong", "9", "--response-length", "99", "--json")
    assert (code, json.loads(out)) == (0, overrides(["two_sum"], overlong=9, response_length=99))


def test_config_can_print_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "easy", "--model", "m", "--yaml")
    assert (code, out) == (0, config_file(settings(["easy"], model="m")))
    assert out.splitlines()[1:4] == [
        "hydra:",
        "  searchpath: [pkg://verl.trainer.config]",
        "defaults: [ppo_trainer, _self_]",
    ]


def test_config_says_on_stderr_what_is_left_to_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "config", "two_sum", "--function")
    assert code == 0
    assert err == (
        "deepgym verl: without --model: add the model, the engine, batch sizes and GPUs\n"
        "deepgym verl: compute_score grades only rows without agent_name: deepgym verl rows ... --agent-name none\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "error: unknown environment 'nope'"),
        (["two_sum", "--legacy", "--dapo"], "error: verl's legacy trainer has no group filtering (dapo)"),
        (
            ["two_sum", "--lost", "drop"],
            "error: reward.custom_reward_function.reward_kwargs.lost='drop': one of auto",
        ),
        (["two_sum", "--trainer-mode", "async"], "error: trainer_mode='async': one of sync"),
        (["two_sum", "--agent"], "error: agent=True: of the environments none is for an agent"),
        (["two_sum", "--deadline", "1"], "error: reward.custom_reward_function.reward_kwargs.deadline=1"),
        (["--yaml", "--json"], "error: --yaml and --json are two forms of one output"),
    ],
)
def test_a_recipe_that_does_not_go_together_ends_with_status_2_and_the_reason(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "config", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(said)


@pytest.mark.parametrize(
    "arguments", [["agent-loops"], ["config", "easy"], ["config", "fix_the_program", "--yaml"]]
)
def test_no_command_loads_verl(arguments: list[str]) -> None:
    command = [sys.executable, "-c", LOADED, *arguments]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()[-1] == "[]"
