"""``deepgym envs`` with both kinds of environments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deepgym.cli import main
from deepgym.environments import (
    MultiTurnEnvironment,
    list_environments,
    list_multi_turn_environments,
    load_multi_turn_environment,
)

Envs = Callable[..., str]


@pytest.fixture
def envs(capsys: pytest.CaptureFixture[str]) -> Envs:
    """``envs(*arguments)``: what ``deepgym envs`` prints; it must end well."""

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["envs", *arguments])
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return out

    return run


def test_the_list_has_both_kinds_and_marks_the_multi_turn_ones(envs: Envs) -> None:
    lines = envs().splitlines()
    marked = [line.split()[0] for line in lines if "multi-turn: " in line]
    assert marked == list_multi_turn_environments()
    assert [line.split()[0] for line in lines] == list_environments() + marked
    assert envs("list").splitlines() == lines


def test_a_suite_is_listed_alone(envs: Envs) -> None:
    assert "multi-turn" not in envs("--suite", "builtin")
    assert [
        line.split()[0] for line in envs("list", "--suite", "builtin").splitlines()
    ] == list_environments()


def test_as_json_each_says_its_kind(envs: Envs) -> None:
    listed = json.loads(envs("--json"))
    kinds = {item["name"]: item["kind"] for item in listed}
    assert [name for name in kinds if kinds[name] == "multi_turn"] == list_multi_turn_environments()
    assert [name for name in kinds if kinds[name] == "single_turn"] == list_environments()


@pytest.mark.parametrize("name", list_multi_turn_environments())
def test_a_multi_turn_environment_can_be_inspected(envs: Envs, name: str) -> None:
    environment = load_multi_turn_environment(name)
    shown = envs("inspect", name)
    assert environment.task.strip() in shown
    assert environment.digest in shown
    assert "kind:       multi_turn" in shown
    assert f"steps {environment.limits.steps}" in shown
    assert "--- reference" not in shown
    assert environment.reference is not None
    (text,) = environment.reference[0].arguments.values()
    shown = envs("inspect", name, "--reference")
    assert f"--- reference, step 1: {environment.reference[0].name}\n{text.splitlines()[0]}" in shown
    assert f"--- reference, step {len(environment.reference)}: submit" in shown


def test_a_multi_turn_environment_inspected_as_json_loads_again(envs: Envs) -> None:
    shown = envs("inspect", "git_repository", "--json")
    assert MultiTurnEnvironment.model_validate_json(shown) == load_multi_turn_environment("git_repository")


def test_a_folder_with_calls_of_several_arguments_can_be_inspected(envs: Envs, tmp_path: Path) -> None:
    (tmp_path / "verify.py").write_text("def verify(work):\n    return True\n")
    (tmp_path / "environment.toml").write_text(
        'name = "mine"\nkind = "multi_turn"\ntask = "t"\nrequires = ["git"]\n'
        '[verify]\nprogram = "verify.py"\n[step_verify]\nprogram = "verify.py"\n'
        '[[reference]]\nname = "write_file"\narguments = { path = "a", content = "b" }\n'
    )
    shown = envs("inspect", str(tmp_path), "--reference")
    assert "requires:   git\n" in shown
    assert "verify:     program, and one after each step\n" in shown
    assert '--- reference, step 1: write_file\n{"path": "a", "content": "b"}' in shown
