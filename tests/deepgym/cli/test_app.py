from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import deepgym
from deepgym.cli.progress import progress
from deepgym.environments import list_environments, list_multi_turn_environments
from deepgym.exceptions import SandboxError
from deepgym.models import RunResult

COMMANDS = ["run", "batch", "eval", "envs", "demo", "doctor"]


def test_the_version_is_the_distributions(cli: Any) -> None:
    ran = cli("--version")
    assert (ran.code, ran.out) == (0, f"deepgym {deepgym.__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(cli: Any, command: str) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert "--json" in ran.out


def test_no_arguments_show_help(cli: Any) -> None:
    ran = cli()
    assert all(command in ran.out + ran.err for command in COMMANDS)


def test_a_missing_argument_is_a_usage_error(cli: Any) -> None:
    assert cli("run").code == 2


def test_envs_lists_the_built_in_ones(cli: Any) -> None:
    ran = cli("envs")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == [
        *list_environments(),
        *list_multi_turn_environments(),
    ]
    assert cli("envs", "list").out == ran.out


def test_envs_lists_as_json(cli: Any) -> None:
    listed = json.loads(cli("envs", "--json").out)
    assert [environment["name"] for environment in listed] == [
        *list_environments(),
        *list_multi_turn_environments(),
    ]
    assert listed == json.loads(cli("envs", "list", "--json").out)


def test_envs_of_an_unknown_suite_exit_2(cli: Any) -> None:
    assert cli("envs", "list", "--suite", "nonesuch").code == 2


def test_inspect_shows_the_task_and_keeps_the_reference_back(cli: Any) -> None:
    environment = deepgym.load_environment("coin_change")
    assert environment.reference
    ran = cli("envs", "inspect", "coin_change")
    assert ran.code == 0
    assert environment.task.splitlines()[0] in ran.out
    assert environment.digest in ran.out
    assert "--- reference" not in ran.out
    assert "--- reference" in cli("envs", "inspect", "coin_change", "--reference").out


def test_inspect_as_json_is_the_environment(cli: Any) -> None:
    ran = cli("envs", "inspect", "coin_change", "--json")
    assert json.loads(ran.out)["name"] == "coin_change"


def test_inspect_of_an_unknown_name_exits_2_with_the_closest(cli: Any) -> None:
    ran = cli("envs", "inspect", "two_sums")
    assert ran.code == 2
    assert "two_sum" in ran.err


def test_a_sandbox_that_cannot_be_had_exits_3(
    stub: Any, cli: Any, env: str, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise SandboxError("no user namespaces; sysctl ...")

    monkeypatch.setattr(stub, "__init__", refuse)
    ran = cli("run", env, put("a.py", "right"))
    assert ran.code == 3
    assert "no user namespaces" in ran.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_it_works_whatever_stdout_can_show(encoding: str) -> None:
    code = (
        "from deepgym.models import RunResult\n"
        "from deepgym.cli import app, show\n"
        "result = RunResult(score=0.0, output='caf\\u00e9 \\u2713 \\U0001f600')\n"
        "app.app.command('say')(lambda: show.run(result))\n"
        "app.run(['say'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert b"FAILED" in ran.stdout
    # Typer takes an ASCII stream for a misconfigured one and writes UTF-8 to it.
    shown = "utf-8" if encoding == "ascii" else encoding
    assert "\u2713".encode(shown, "backslashreplace") in ran.stdout


def test_help_works_where_stdout_is_ascii() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from deepgym.cli import main; main(['--help'])"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert b"doctor" in ran.stdout


def test_on_a_terminal_progress_is_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress("[b]label", 2) as observer:
        observer.on_result(0, RunResult(score=1.0, passed=True))
        observer.on_result(1, RunResult(score=0.0, error_type="network_error"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[b]label" in captured.err
    assert "2/2" in captured.err
    assert "1 passed, 1 no verdict" in captured.err
