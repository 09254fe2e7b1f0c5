from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepgym.environments import Cases, Environment, Program, load_environment
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError

MANIFEST = """
name = "swap"
task = "Write swap(pair)."
reference = "answer.py"
tags = ["tuples"]
difficulty = "easy"
seed = 7

[limits]
wall = 2
case_timeout = 0.5

[verify]
kind = "cases"
function = "swap"
draw = "draw.py"

[[verify.cases]]
args = [{ "!t" = [1, 2] }]
expected = { "!t" = [2, 1] }
weight = 2.5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "swap"
    (made / "files" / "data").mkdir(parents=True)
    (made / "environment.toml").write_text(MANIFEST)
    (made / "answer.py").write_text("def swap(pair):\n    return pair[::-1]\n")
    (made / "draw.py").write_text("def draw(rng):\n    return [{'args': [(3, 4)], 'expected': (4, 3)}]\n")
    (made / "files" / "data" / "é.txt").write_text("x\r\n", newline="")
    return made


def test_a_folder_becomes_an_environment(folder: Path) -> None:
    environment = load_environment(folder)
    assert environment.name == "swap"
    assert environment.reference == "def swap(pair):\n    return pair[::-1]\n"
    assert environment.files == {"data/é.txt": "x\r\n"}
    assert environment.limits.wall == 2.0
    assert environment.limits.case_timeout == 0.5
    assert environment.tags == ("tuples",)
    assert environment.seed == 7
    assert isinstance(environment.verify, Cases)
    assert environment.verify.cases[0].args == ((1, 2),)
    assert environment.verify.cases[0].expected == (2, 1)
    assert environment.verify.draw is not None


def test_the_path_can_be_text_or_the_manifest_itself(folder: Path) -> None:
    assert (
        load_environment(str(folder))
        == load_environment(folder / "environment.toml")
        == load_environment(folder)
    )


def test_a_folder_in_the_working_directory_is_found_by_its_name(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder.parent)
    assert load_environment("swap").name == "swap"
    (folder.parent / "two_sum").mkdir()
    assert load_environment("two_sum").difficulty == "easy", "a built-in name wins"
    with pytest.raises(InvalidEnvironmentError, match=r"holds no environment\.toml"):
        load_environment("./two_sum")


def test_an_edited_folder_is_read_again(folder: Path) -> None:
    before = load_environment(folder)
    (folder / "answer.py").write_text("swap = None\n")
    assert load_environment(folder).reference == "swap = None\n"
    assert before.digest != load_environment(folder).digest


def test_a_folder_may_leave_name_and_task_to_its_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "task.md").write_text("Do it.\n")
    (tmp_path / "mine" / "environment.toml").write_text(
        '[verify]\nkind = "cases"\n[[verify.cases]]\nstdin = "1"\nstdout = "2"\n'
    )
    environment = load_environment(tmp_path / "mine")
    assert environment.name == "mine"
    assert environment.task == "Do it.\n"


def test_a_program_and_its_own_files_come_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "verify_files").mkdir()
    (tmp_path / "verify_files" / "expected.txt").write_text("42")
    (tmp_path / "verify_files" / "__pycache__").mkdir()
    (tmp_path / "verify_files" / "__pycache__" / "x.pyc").write_bytes(b"\xff\x00")
    (tmp_path / "check.py").write_text("def verify(solution):\n    return True\n")
    (tmp_path / "prefix.py").write_text("def f(x):\n")
    (tmp_path / "environment.toml").write_text(
        'name = "p"\ntask = "t"\nprefix = "prefix.py"\nentry_point = "f"\n'
        '[verify]\nkind = "program"\nprogram = "check.py"\nseeded = true\n'
    )
    environment = load_environment(tmp_path)
    assert environment.files == {}
    assert environment.prefix == "def f(x):\n"
    assert environment.verify == Program(
        source="def verify(solution):\n    return True\n", files={"expected.txt": "42"}, seeded=True
    )


def edited(folder: Path, old: str, new: str) -> str:
    assert old in MANIFEST
    (folder / "environment.toml").write_text(MANIFEST.replace(old, new))
    with pytest.raises(InvalidEnvironmentError) as caught:
        load_environment(folder)
    message = str(caught.value)
    assert str(folder) in message
    return message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('tags = ["tuples"]', "tagz = 1", ["tagz: unknown field (got 1)", "did you mean 'tags'"]),
        ("wall = 2", "wal = 2", ["limits.wal: unknown field (got 2)", "did you mean 'wall'"]),
        ("wall = 2", "wall = -2", ["limits.wall", "greater than 0", "(got -2)"]),
        ("wall = 2", "zzz = 2", ["limits.zzz: unknown field (got 2); known: wall, cpu, memory"]),
        ("weight = 2.5", "wieght = 2.5", ["verify.cases[0].wieght: unknown field", "did you mean 'weight'"]),
        ("weight = 2.5", "weight = 0", ["verify.cases[0].weight", "(got 0)"]),
        ('draw = "draw.py"', 'drawn = "draw.py"', ["verify.drawn: unknown field", "did you mean 'draw'"]),
        ('kind = "cases"', 'kind = "case"', ["verify", "'cases', 'program'"]),
        ('kind = "cases"', "", ["verify", "kind"]),
        ('task = "Write swap(pair)."', "", ["task: this field is required"]),
        (
            'difficulty = "easy"',
            'difficulty = "trivial"',
            ["difficulty", "'easy', 'medium' or 'hard'", "(got 'trivial')"],
        ),
        ('"!t" = [2, 1]', '"!x" = [2, 1]', ["verify.cases[0].expected", "not a tagged value", "for a tuple"]),
        ("seed = 7", "schema_version = 2", ["schema_version", "(got 2)"]),
        ("seed = 7", "seed = ", ["isn't valid TOML", "line"]),
        ('"answer.py"', '"missing.py"', ["reference = 'missing.py' can't be read: No such file"]),
        ('"answer.py"', '"files"', ["reference = 'files' can't be read"]),
        ('"answer.py"', '"../outside.py"', ["reference = '../outside.py' is outside the folder"]),
        ('"answer.py"', '"/etc/hostname"', ["is outside the folder"]),
        ('"answer.py"', "5", ["reference = 5 must name a file of the folder"]),
        ('draw = "draw.py"', "draw = []", ["verify.draw = [] must name a file of the folder"]),
        ('draw = "draw.py"', 'source = "x"', ['write program = "verify.py"']),
        ("seed = 7", 'files = { a = "b" }', ["files is given and files/ exists"]),
        ("[verify]", "verify = 5\n[other]", ["verify", "other"]),
    ],
)
def test_an_error_names_the_field_the_value_and_the_fix(
    folder: Path, old: str, new: str, says: list[str]
) -> None:
    message = edited(folder, old, new)
    for part in says:
        assert part in message


def test_a_draw_that_is_not_python_names_its_line(folder: Path) -> None:
    (folder / "draw.py").write_text("def draw(rng):\n    return [\n")
    with pytest.raises(InvalidEnvironmentError, match=r"verify\.draw: draw isn't valid Python.*line 2"):
        load_environment(folder)


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "files" / "secret").symlink_to("/etc/hostname")
    with pytest.raises(InvalidEnvironmentError, match="files/secret is outside the folder"):
        load_environment(folder)


def test_a_binary_or_oversized_file_is_refused(folder: Path) -> None:
    (folder / "files" / "image").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidEnvironmentError, match="files/image isn't UTF-8 text"):
        load_environment(folder)
    (folder / "files" / "image").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(InvalidEnvironmentError, match="files/image is larger than 1048576 bytes"):
        load_environment(folder)


def test_many_problems_are_listed_up_to_eight(folder: Path) -> None:
    message = edited(folder, "seed = 7", "\n".join(f"unknown{number} = 1" for number in range(12)))
    assert message.count("unknown field") == 8
    assert "and 4 more" in message


def test_a_path_that_is_not_there_is_an_unknown_name(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", str(tmp_path / "nothing"), "./nothing", "a/b"):
        with pytest.raises(UnknownNameError, match=r"no folder .*environment\.toml"):
            load_environment(path)


def test_every_folder_error_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no environment\.toml; create one"):
        load_environment(tmp_path)


def test_the_model_agrees_with_the_folder(folder: Path) -> None:
    environment = load_environment(folder)
    assert Environment.model_validate_json(environment.model_dump_json()) == environment
