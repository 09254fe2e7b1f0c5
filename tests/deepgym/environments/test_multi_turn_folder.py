from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from deepgym.environments import (
    EpisodeLimits,
    MultiTurnEnvironment,
    ToolCall,
    list_environments,
    list_multi_turn_environments,
    load_environment,
    load_multi_turn_environment,
)
from deepgym.environments.registry import load_task
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError

MANIFEST = """
kind = "multi_turn"
task = "Make it right."
setup = "setup.sh"
requires = ["git"]
tools = ["bash", "python", "submit"]
difficulty = "easy"
tags = ["shell"]
reference = "reference.sh"
seed = 3

[limits]
step = 5
steps = 4

[verify]
program = "verify.py"
seeded = true

[step_verify]
program = "step.py"
"""
FILES = {
    "setup.sh": "echo $DEEPGYM_SEED > seed\n",
    "reference.sh": "cat seed > answer\necho done\n",
    "verify.py": "def verify(work):\n    return work.text('answer') == '3\\n'\n",
    "step.py": "def verify(work):\n    return work.exists('answer')\n",
    "files/data/in.txt": "x\r\n",
    "verify_files/expected.txt": "42",
    "step_verify_files/other.txt": "43",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    for name, text in {**FILES, "environment.toml": MANIFEST}.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    return made


def rewritten(folder: Path, old: str, new: str) -> None:
    assert old in MANIFEST
    (folder / "environment.toml").write_text(MANIFEST.replace(old, new, 1))


def test_a_folder_becomes_a_multi_turn_environment(folder: Path) -> None:
    made = load_multi_turn_environment(folder)
    assert isinstance(made, MultiTurnEnvironment)
    assert made.name == "mine"
    assert made.setup == FILES["setup.sh"]
    assert made.requires == ("git",)
    assert made.tools == ("bash", "python", "submit")
    assert made.files == {"data/in.txt": "x\r\n"}
    assert made.limits == EpisodeLimits(step=5, steps=4)
    assert made.verify.source == FILES["verify.py"]
    assert made.verify.files == {"expected.txt": "42"}
    assert made.verify.seeded
    assert made.step_verify is not None
    assert made.step_verify.files == {"other.txt": "43"}
    assert (made.seed, made.difficulty, made.tags) == (3, "easy", ("shell",))
    assert MultiTurnEnvironment.model_validate_json(made.model_dump_json()) == made


def test_a_shell_script_is_a_reference_of_one_command(folder: Path) -> None:
    made = load_multi_turn_environment(folder)
    assert made.reference == (
        ToolCall(name="bash", arguments={"command": FILES["reference.sh"]}),
        ToolCall(name="submit"),
    )


def test_a_python_file_is_a_reference_too(folder: Path) -> None:
    rewritten(folder, "reference.sh", "reference.py")
    (folder / "reference.py").write_text("print(1)\n")
    made = load_multi_turn_environment(folder)
    assert made.reference == (
        ToolCall(name="python", arguments={"code": "print(1)\n"}),
        ToolCall(name="submit"),
    )


def test_a_reference_can_be_written_step_by_step(folder: Path) -> None:
    rewritten(folder, 'reference = "reference.sh"\n', "")
    manifest = folder / "environment.toml"
    steps = """
[[reference]]
name = "bash"
arguments.command = '''
echo one
echo two'''

[[reference]]
name = "submit"
"""
    manifest.write_text(manifest.read_text() + steps)
    made = load_multi_turn_environment(folder)
    assert made.reference == (
        ToolCall(name="bash", arguments={"command": "echo one\necho two"}),
        ToolCall(name="submit"),
    )


SETUP = """
import os

print("seed", os.environ["DEEPGYM_SEED"], "caf\u00e9", __name__)
TEXT = '''
END_OF_SETUP
$HOME `id` \\\\
'''
print(TEXT.strip())
"""


def test_a_set_up_in_python_is_run_by_bash_as_it_stands(folder: Path) -> None:
    rewritten(folder, "setup.sh", "make_it.py")
    (folder / "make_it.py").write_text(SETUP, encoding="utf-8")
    made = load_multi_turn_environment(folder)
    ran = subprocess.run(
        ["bash"],
        input=made.setup.encode(),
        env={"DEEPGYM_SEED": "7", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert ran.stdout.decode() == "seed 7 caf\u00e9 __main__\nEND_OF_SETUP\n$HOME `id` \\\n"


def test_a_set_up_in_python_can_be_imported_by_the_verifiers_alone(folder: Path) -> None:
    rewritten(folder, "setup.sh", "make_it.py")
    (folder / "make_it.py").write_text("x = 1\n")
    made = load_multi_turn_environment(folder)
    assert made.verify.files == {"expected.txt": "42", "make_it.py": "x = 1\n"}
    assert made.step_verify is not None
    assert made.step_verify.files == {"other.txt": "43", "make_it.py": "x = 1\n"}
    assert "make_it.py" not in made.files


def test_a_verifier_without_files_of_its_own_gets_the_set_up(folder: Path) -> None:
    (folder / "verify_files" / "expected.txt").unlink()
    (folder / "verify_files").rmdir()
    rewritten(folder, "setup.sh", "make_it.py")
    (folder / "make_it.py").write_text("x = 1\n")
    assert load_multi_turn_environment(folder).verify.files == {"make_it.py": "x = 1\n"}


def test_the_task_can_stand_in_a_file(folder: Path) -> None:
    rewritten(folder, 'task = "Make it right."\n', "")
    (folder / "task.md").write_text("Do it.\n")
    assert load_multi_turn_environment(folder).task == "Do it.\n"


def test_a_folder_needs_no_more_than_a_task_and_a_verifier(tmp_path: Path) -> None:
    (tmp_path / "environment.toml").write_text(
        'name = "small"\nkind = "multi_turn"\ntask = "t"\n[verify]\nprogram = "v.py"\n'
    )
    (tmp_path / "v.py").write_text("def verify(work):\n    return True\n")
    made = load_multi_turn_environment(str(tmp_path))
    assert (made.name, made.reference, made.setup) == ("small", None, "")
    assert made == load_multi_turn_environment(tmp_path / "environment.toml")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'kind = "multi_turn"',
            'kind = "multiturn"',
            ["kind: must be 'multi_turn', or left out", "'multiturn'"],
        ),
        ('kind = "multi_turn"', "kind = 5", ["kind: must be 'multi_turn'", "(got 5)"]),
        ("requires =", "require =", ["require: unknown field", "did you mean 'requires'"]),
        ("step = 5", "stepp = 5", ["limits.stepp: unknown field (got 5)", "did you mean 'step'"]),
        ("steps = 4", "steps = 0", ["limits.steps", "(got 0)"]),
        ("steps = 4", "wall = 4", ["limits.wall: unknown field (got 4); known: step, actions"]),
        ("seeded = true", "seded = true", ["verify.seded: unknown field", "did you mean 'seeded'"]),
        ('"setup.sh"', '"nothing.sh"', ["setup = 'nothing.sh' can't be read: No such file"]),
        ('"setup.sh"', '"../outside.sh"', ["setup = '../outside.sh' is outside the folder"]),
        ('"setup.sh"', '"environment.toml"', ["setup = 'environment.toml' must be a .sh or a .py file"]),
        ('"setup.sh"', "5", ["setup = 5 must name a file of the folder"]),
        ('"reference.sh"', '"environment.toml"', ["reference = 'environment.toml' must be a .sh or a .py"]),
        ('"reference.sh"', "5", ["reference", "(got 5)"]),
        ('reference = "reference.sh"', "reference = [1]", ["reference[0]", "(got 1)"]),
        ('"bash", ', "", ["reference[0]: there is no tool 'bash'; the tools are python, submit"]),
        (
            'reference = "reference.sh"',
            'reference = [{name = "bash", arguments = {cmd = "ls"}}]',
            ["reference[0]", "command is missing"],
        ),
        ('reference = "reference.sh"', 'reference = [{nam = "bash"}]', ["reference[0].nam: unknown field"]),
        ('program = "verify.py"', "", ["verify.program", 'write program = "verify.py"']),
        ('program = "verify.py"', 'kind = "cases"', ["verify.kind", "'program'", "(got 'cases')"]),
        ('program = "verify.py"', 'source = "x"', ["verify.source", 'write program = "verify.py"']),
        ('program = "step.py"', "", ["step_verify.program", 'write program = "verify.py"']),
        ('program = "step.py"', 'program = "no.py"', ["step_verify.program = 'no.py' can't be read"]),
        ("seeded = true", 'files = { a = "b" }', ["files is given and verify_files/ exists"]),
        ('task = "Make it right."', "", ["task: this field is required"]),
        ('"git"', '"/usr/bin/git"', ["requires[0]", "(got '/usr/bin/git')"]),
        ('"bash", ', '"shell", ', ["tools[0]", "'bash'", "(got 'shell')"]),
        ("seed = 3", "loopback = true", ["loopback: unknown field"]),
    ],
)
def test_an_error_names_the_field_the_value_and_the_fix(
    folder: Path, old: str, new: str, says: list[str]
) -> None:
    rewritten(folder, old, new)
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_multi_turn_environment(folder)
    message = str(caught.value)
    assert str(folder / "environment.toml") in message
    for part in says:
        assert part in message


def test_a_verifier_that_is_not_python_names_its_line(folder: Path) -> None:
    (folder / "verify.py").write_text("def verify(work):\n    return (\n")
    with pytest.raises(InvalidEnvironmentError, match=r"verify\.source: .*isn't valid Python.*line 2"):
        load_multi_turn_environment(folder)


def test_two_files_of_one_name_for_the_verifier_are_refused(folder: Path) -> None:
    rewritten(folder, "setup.sh", "make_it.py")
    (folder / "make_it.py").write_text("x = 1\n")
    (folder / "verify_files" / "make_it.py").write_text("x = 2\n")
    with pytest.raises(InvalidEnvironmentError, match=r"both named 'make_it\.py'; rename one"):
        load_multi_turn_environment(folder)


def test_a_forgotten_kind_is_named(folder: Path) -> None:
    rewritten(folder, 'kind = "multi_turn"\n', "")
    rewritten_again = (folder / "environment.toml").read_text().replace('reference = "reference.sh"\n', "")
    (folder / "environment.toml").write_text(rewritten_again)
    with pytest.raises(InvalidEnvironmentError, match=r"setup: unknown field.*needs kind = 'multi_turn'"):
        load_task(folder)


def test_each_kind_has_its_own_function_and_the_other_one_says_so(folder: Path) -> None:
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_environment("log_analysis")
    assert "load_multi_turn_environment('log_analysis')" in str(caught.value)
    assert "dg.session('log_analysis')" in str(caught.value)
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_environment(folder)
    assert f"dg.session({str(folder)!r})" in str(caught.value)
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_multi_turn_environment("two_sum")
    assert "load_environment('two_sum')" in str(caught.value)
    assert "dg.run('two_sum', answer)" in str(caught.value)


def test_either_kind_can_be_loaded_where_both_will_do(folder: Path) -> None:
    assert load_task("two_sum") is load_environment("two_sum")
    assert load_task("log_analysis") is load_multi_turn_environment("log_analysis")
    assert load_task(folder) == load_multi_turn_environment(folder)


def test_names_are_sorted_and_no_name_stands_for_two() -> None:
    names = list_multi_turn_environments()
    assert names == sorted(names)
    assert len(names) >= 6
    assert not set(names) & set(list_environments())
    names.clear()
    assert list_multi_turn_environments()


@pytest.mark.parametrize("load", [load_environment, load_multi_turn_environment, load_task])
def test_an_unknown_name_fails_with_the_closest_names_of_both_kinds(load: Any) -> None:
    with pytest.raises(UnknownNameError, match="log_analysis"):
        load("log_anlysis")
    with pytest.raises(UnknownNameError, match="two_sum"):
        load("two_sums")
    with pytest.raises(UnknownNameError, match=r"no folder .*environment\.toml"):
        load("./nothing")


def test_a_built_in_name_wins_over_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert load_multi_turn_environment("mine").task == "Make it right."
    folder.rename(folder.parent / "refactor")
    assert load_multi_turn_environment("refactor").task != "Make it right."
    assert load_multi_turn_environment("./refactor").task == "Make it right."
