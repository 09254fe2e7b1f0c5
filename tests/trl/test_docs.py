"""Runs what the pages about TRL show, with tiny models in the place of the named ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/trl.md"
README = ROOT / "packages/deepgym-trl/README.md"

pytestmark = [pytest.mark.local_sandbox]


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Line and text of each block of ``language``."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    fences = [token for token in tokens if token.type == "fence" and token.map]
    return [(fence.map[0] + 1, fence.content) for fence in fences if fence.info.strip() == language]


def run(page: Path, replaced: dict[str, str]) -> dict[str, Any]:
    """What the page's Python blocks leave behind, run in order in one namespace."""
    namespace: dict[str, Any] = {"__name__": "docs_page"}
    for line, code in blocks(page, "python"):
        if "make_environment_factory" in code and not tools_work():
            continue
        for name, other in replaced.items():
            code = code.replace(name, other)
        # Newlines before it, so that a traceback shows the line of the page.
        exec(compile("\n" * line + code, str(page.relative_to(ROOT)), "exec"), namespace)
    return namespace


def tools_work() -> bool:
    """Not with TRL before 1.7 and transformers from 5.13 on, as the page says."""
    trl, transformers = (tuple(map(int, version(name).split(".")[:2])) for name in ("trl", "transformers"))
    return trl >= (1, 7) or transformers < (5, 13)


@pytest.fixture
def shown(
    tiny_model: str, tiny_qwen3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], dict[str, Any]]]:
    """Runs a page in a folder of its own."""
    from deepgym_trl import TRLReward

    made: list[TRLReward] = []
    begin = TRLReward.__init__

    def remembered(self: TRLReward, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(TRLReward, "__init__", remembered)
    monkeypatch.chdir(tmp_path)
    models = {"HuggingFaceTB/SmolLM2-135M-Instruct": tiny_model, "Qwen/Qwen3-0.6B": tiny_qwen3}
    yield lambda page: run(page, models)
    for reward in made:
        reward.close()


def test_the_pages_snippets_run_and_what_they_assert_holds(
    shown: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    left = shown(PAGE)
    assert len(blocks(PAGE, "python")) == PAGE.read_text(encoding="utf-8").count("\n```py")
    assert (tmp_path / "tasks.jsonl").read_text().count("\n") == 64
    if tools_work():
        (agents,) = [log for log in left["agents"].state.log_history if "train_loss" in log]
        assert agents["train_loss"] == 0.0
    logged = {key for key in left["entry"] if key.startswith("deepgym/")}
    assert logged == {*metrics_of_the_page(), *(f"deepgym/no_verdict/{kind}" for kind in no_verdict_errors())}


def metrics_of_the_page() -> set[str]:
    """The names in the table of metrics."""
    table = PAGE.read_text(encoding="utf-8").partition("| `deepgym/...` | |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {f"deepgym/{name}" for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def no_verdict_errors() -> tuple[str, ...]:
    from deepgym_trl.metrics import NO_VERDICT_ERRORS

    return NO_VERDICT_ERRORS


def test_the_readmes_snippet_runs(shown: Callable[[Path], dict[str, Any]]) -> None:
    trainer = shown(README)["trainer"]
    assert trainer.state.global_step == 1
    (reward,) = trainer.reward_funcs
    assert reward.results([""], ["no code"]).results[0].score == 0.0


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_a_page_says_that_it_is_run_here_and_pins_what_it_installs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "\n<!-- needs: trl -->\n" in text
    lines = [line for _, code in blocks(page, "sh") for line in code.splitlines() if "pip install" in line]
    assert lines
    assert all('==1.0.0"' in line for line in lines)


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_each_name_that_a_page_imports_is_public(page: Path) -> None:
    import importlib

    text = "\n".join(code for _, code in blocks(page, "python"))
    imported = re.findall(r"^from (deepgym_trl[\w.]*) import (.+)$", text, re.MULTILINE)
    assert imported
    for module, names in imported:
        public = importlib.import_module(module).__all__
        assert {name.strip() for name in names.split(",")} <= set(public), module
