from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deepgym import plugins


def distribution(where: Path, name: str, command: str, source: str | None) -> None:
    """An installed distribution, as the import system sees one, with a ``deepgym.cli`` entry point."""
    module = name.replace("-", "_")
    meta = where / f"{module}-1.2.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (meta / "entry_points.txt").write_text(f"[deepgym.cli]\n{command} = {module}:app\n")
    if source is not None:
        (where / f"{module}.py").write_text(source)


GOOD = """
import typer
app = typer.Typer(help="Of another distribution.")

@app.command()
def greet(name: str = "you") -> None:
    typer.echo(f"hello {name}")

@app.command()
def leave() -> None:
    raise typer.Exit(5)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_plugins_command_runs_with_its_arguments_and_exit_code(site: Path, cli: Any) -> None:
    distribution(site, "dg-good", "extra", GOOD)
    assert cli("extra", "greet", "--name", "me").out == "hello me\n"
    assert cli("extra", "leave").code == 5


def test_a_plugin_is_imported_only_when_it_is_named_or_listed(site: Path, cli: Any) -> None:
    distribution(site, "dg-lazy", "lazy", GOOD)
    cli("envs", "--help")
    cli("--version")
    assert "dg_lazy" not in sys.modules
    assert "Of another distribution." in cli("--help").out
    assert "dg_lazy" in sys.modules


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('half installed')", "half installed"),
        (None, "No module named"),
        ("app = 7", "int, not a Typer app"),
        ("import typer\napp = typer.Typer()", "RuntimeError"),
    ],
)
def test_a_broken_plugin_names_its_distribution_and_breaks_no_other_command(
    site: Path, cli: Any, source: str | None, reason: str
) -> None:
    distribution(site, "dg-broken", "broken", source)
    sys.modules.pop("dg_broken", None)
    ran = cli("broken", "anything", "--at-all")
    assert ran.code == 2
    assert "dg-broken 1.2" in ran.err
    assert reason in ran.err
    assert cli("--version").code == 0
    listed = cli("--help")
    assert listed.code == 0
    assert "broken" in listed.out


def test_a_plugin_cannot_take_a_core_commands_name(site: Path, cli: Any) -> None:
    distribution(site, "dg-thief", "doctor", "raise RuntimeError('stolen')")
    assert "stolen" not in cli("doctor", "--help").out


def test_a_known_plugin_that_is_missing_exits_2_with_its_install_line(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "names", lambda group: [])
    ran = cli("verl", "--config", "x")
    assert ran.code == 2
    assert plugins.install_line("verl") in ran.err


def test_an_unknown_command_exits_2(cli: Any) -> None:
    ran = cli("nonesuch")
    assert ran.code == 2
    assert "nonesuch" in ran.err


def test_the_package_and_its_command_load_typer_and_rich_only_when_run() -> None:
    code = "import deepgym.cli, sys; print({'typer', 'rich', 'markdown_it'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
