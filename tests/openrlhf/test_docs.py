"""Runs what the pages about OpenRLHF show, and holds their commands against the installed one."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from deepgym_openrlhf import versions
from deepgym_openrlhf.flags import NEW, OLD

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/openrlhf.md"
README = ROOT / "packages/deepgym-openrlhf/README.md"
EXAMPLES = ROOT / "examples/openrlhf"
PAGES = pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line and text of each block of ``language``."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    fences = [token for token in tokens if token.type == "fence" and token.map]
    return [(fence.map[0] + 1, fence.content) for fence in fences if fence.info.strip() == language]


def commands(page: Path) -> list[str]:
    """What a page's shell blocks run, a line each."""
    code = "\n".join(code for _, code in blocks(page, "sh")) if page.suffix == ".md" else page.read_text()
    return [line.strip() for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def run(page: Path) -> dict[str, Any]:
    """What the page's Python blocks leave behind, run in order in one namespace."""
    namespace: dict[str, Any] = {"__name__": "docs_page"}
    for line, code in blocks(page, "python"):
        # Newlines before it, so that a traceback shows the line of the page.
        exec(compile("\n" * line + code, str(page.relative_to(ROOT)), "exec"), namespace)
    return namespace


@pytest.mark.local_sandbox
@PAGES
def test_a_pages_snippets_run_and_what_they_assert_holds(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    left = run(page)
    assert {"/get_reward", "/health", "/metrics"} <= paths(left["app"])
    if page == PAGE:
        assert (tmp_path / "prompts.jsonl").read_text().count("\n") == len(left["rows"]) > 3


def paths(app: Any) -> set[str]:
    routes = [*app.routes]
    for route in routes:
        routes += getattr(getattr(route, "original_router", None), "routes", [])
    return {route.path for route in routes if hasattr(route, "path")}


@PAGES
def test_a_page_says_that_it_is_run_here_and_pins_what_it_installs(page: Path) -> None:
    assert "\n<!-- needs: openrlhf -->\n" in page.read_text(encoding="utf-8")
    lines = [line for line in commands(page) if "pip install" in line]
    assert lines
    assert all('==1.0.0"' in line for line in lines)


@PAGES
def test_the_commands_that_a_page_shows_are_taken(page: Path) -> None:
    from typer.main import get_command

    from deepgym_openrlhf.cli import app

    known: Any = get_command(app)
    shown = [line.split()[2:] for line in commands(page) if line.startswith("deepgym openrlhf ")]
    assert {words[0] for words in shown} == {"serve", "check"}
    for name, *arguments in shown:
        with known.commands[name].make_context(name, arguments) as context:
            assert context.params


def shown_flags(text: str) -> set[str]:
    return set(re.findall(r"--[a-z]+\.[\w.]*\w", text))


@pytest.mark.parametrize("page", [PAGE, *sorted(EXAMPLES.glob("*.sh"))], ids=lambda path: path.name)
def test_the_flags_that_are_shown_are_those_of_openrlhf(page: Path) -> None:
    if versions.numbers(versions.installed() or "") < versions.DOTTED:
        pytest.skip("the pages show the newer flags")
    (path,) = [path for path in files("openrlhf") or () if str(path).endswith("cli/train_ppo_ray.py")]
    source = path.read_text()
    flags = {flag for line in commands(page) for flag in shown_flags(line)}
    assert len(flags) > 3
    assert {flag for flag in flags if f'"{flag}"' not in source} == set()


def test_the_table_of_flags_is_what_the_code_knows() -> None:
    table = (
        PAGE.read_text(encoding="utf-8").partition("## The flags by version")[2].partition("\n\nTested")[0]
    )
    rows = [re.findall(r"`(--[\w.]+)`", line) for line in table.splitlines()]
    shown = {tuple(row) for row in rows if row}
    old, new = asdict(OLD), asdict(NEW)
    assert shown == {(old[field], new[field]) for field in old if field != "versions"}


def test_the_tables_of_logs_counters_and_variables_are_what_there_is() -> None:
    from deepgym.models import RunResult
    from deepgym_openrlhf import settings
    from deepgym_openrlhf.grading import log_of
    from deepgym_openrlhf.tally import Tally

    text = PAGE.read_text(encoding="utf-8")
    logged = text.partition("| `extra_logs` | |")[2].partition("\n\n")[0]
    cells = " ".join(row.split("|")[1] for row in logged.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", cells)) == set(log_of(RunResult(score=0.0, error_type="other"), 0.0))

    tally = Tally()
    tally.count(RunResult(score=0.0, error_type="other"), 0.0)
    counted = set(re.findall(r"^# TYPE (\w+)", tally.text(), re.MULTILINE))
    assert counted == set(re.findall(r"`(deepgym_\w+_total)`", text))

    variables = text.partition("| Variable `DEEPGYM_OPENRLHF_...` | |")[2].partition("\n\n")[0]
    cells = " ".join(row.split("|")[1] for row in variables.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", cells)) == set(settings._NAMES)


def test_the_budget_that_the_page_names_is_the_one_that_is_kept() -> None:
    from deepgym_openrlhf.attempts import BUDGET

    assert f"| an answer is due after | {BUDGET:g} s |" in PAGE.read_text(encoding="utf-8")


@PAGES
def test_each_name_that_a_page_imports_is_public(page: Path) -> None:
    import importlib

    text = "\n".join(code for _, code in blocks(page, "python"))
    imported = re.findall(r"^from (deepgym_openrlhf[\w.]*) import (.+)$", text, re.MULTILINE)
    assert imported
    for module, names in imported:
        public = importlib.import_module(module).__all__
        assert {name.strip() for name in names.split(",")} <= set(public), module


def test_the_example_writes_a_row_for_each_environment(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    command = [sys.executable, EXAMPLES / "prompts.py", "easy", out, "--repeat", "2"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = out.read_text().splitlines()
    assert said == f"{len(lines)} rows in {out}\n"
    assert len(lines) == 2 * len(set(lines)) > 6


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.sh")), ids=lambda path: path.name)
def test_the_scripts_are_shell_and_pin_what_they_install(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert '"deepgym-openrlhf[trainer]==1.0.0"' in script.read_text()
