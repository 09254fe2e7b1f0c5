"""Runs what the documentation shows: each page's Python blocks in order, in one namespace."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from deepgym import DeepGym, RewardFunction

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for pattern in ("README.md", "docs/**/*.md", "packages/*/README.md") for page in ROOT.glob(pattern)
)
#: A page whose snippets need what isn't installed here; the tests of that package run them.
NEEDS = re.compile(r"^<!-- needs: \S+ -->$", re.MULTILINE)
#: The line above a snippet that isn't run, with the reason.
NO_RUN = re.compile(r"\s*<!-- no-run: \S.* -->")
#: What a page can't do without a sandbox that works.
NEEDS_SANDBOX = re.compile(r"\b(?:Async)?(?:DeepGym|RewardFunction)\(")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: str
    code: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *languages: str) -> list[Block]:
    fences = [
        (token.map[0] + 1, token.info.strip(), token.content)
        for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
        if token.type == "fence" and token.map
    ]
    return [Block(page, *fence) for fence in fences if fence[1].partition(" ")[0] in languages]


def runnable(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    if NEEDS.search(text):
        return []
    lines = ["", *text.split("\n")]
    return [block for block in blocks(page, "python", "py") if not NO_RUN.match(lines[block.line - 1])]


def run(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "docs_page"}
    try:
        for block in runnable(page):
            # Newlines before it, so that a traceback shows the line of the page.
            code = compile("\n" * block.line + block.code, str(page.relative_to(ROOT)), "exec")
            exec(code, namespace)
    finally:
        for left_open in namespace.values():
            if isinstance(left_open, (DeepGym, RewardFunction)):
                left_open.close()


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_pages_snippets_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(NEEDS_SANDBOX.search(block.code) for block in runnable(page)):
        request.getfixturevalue("local_sandbox")
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_pages_fences_have_one_word_or_they_would_not_be_shown_as_code(page: Path) -> None:
    fences = blocks(page, "python", "py", "sh", "bash", "yaml", "toml", "json", "text", "console")
    assert [block.where for block in fences if " " in block.info] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_command_that_a_page_shows_exists(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from deepgym.cli import main

    shown = {
        line.split()[1]
        for block in blocks(page, "sh", "bash", "console")
        for line in block.code.split("\n")
        if line.removeprefix("$ ").startswith("deepgym ")
    }
    for command in sorted(shown):
        with pytest.raises(SystemExit) as exit_info:
            main([command, "--help"])
        assert exit_info.value.code == 0, f"{page}: {command}\n{capsys.readouterr().err}"


def test_the_pages_that_the_project_promises_are_there() -> None:
    promised = {
        "docs/index.md",
        "docs/quickstart.md",
        "docs/training/reward-contract.md",
        "docs/verifiers.md",
    }
    assert promised <= {name(page) for page in PAGES}


def test_a_snippet_with_a_reason_above_it_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- no-run: it fails -->\n```python\n1 / 0\n```\n\n```python\nx = 1\n```\n")
    assert [block.code for block in runnable(page)] == ["x = 1\n"]
    page.write_text("<!-- needs: trl -->\n```python\n1 / 0\n```\n")
    assert runnable(page) == []


def test_a_failing_snippet_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\n```\n\nText\n\n```python\ny = 2\nassert x == y\n```\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    with pytest.raises(AssertionError) as error:
        run(page)
    assert error.traceback[-1].lineno == 10
