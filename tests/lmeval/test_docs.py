"""Runs what the pages about lm-eval show, with a loopback server in the place of the named models."""

from __future__ import annotations

import glob
import importlib
import io
import json
import logging
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from deepgym.cli import main

from .server import Loopback, loopback

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/training/lm-eval.md"
README = ROOT / "packages/deepgym-lmeval/README.md"
EXAMPLES = ROOT / "examples/lmeval"

Blocks = list[tuple[int, str, str]]


def blocks(page: Path, *languages: str) -> Blocks:
    """Line, language and text of each block, in order."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    fences = [token for token in tokens if token.type == "fence" and token.map]
    return [
        (fence.map[0] + 1, fence.info.strip(), fence.content)
        for fence in fences
        if fence.map and fence.info.strip() in languages
    ]


def commands(page: Path) -> list[str]:
    return [line for _, _, code in blocks(page, "sh") for line in code.splitlines() if line.strip()]


class Shell:
    """Runs a page's lines in this process: a process for each would cost more than all that they do."""

    def __init__(self, server: Loopback) -> None:
        self.server = server
        self.said: dict[str, str] = {}

    def __call__(self, line: str) -> None:
        """Run one line; what it prints is kept under that line.

        Raises:
            AssertionError: it doesn't exit with 0.
        """
        if line.startswith("pip install"):
            return
        words = shlex.split(self._path(line))
        words = [found for word in words for found in (sorted(glob.glob(word)) or [word])]
        program, words = words[0], words[1:]
        if program == "accelerate":
            assert words[:3] == ["launch", "-m", "deepgym_lmeval"], (
                "what starts each rank; test_ranks has two"
            )
            program, words = "deepgym", ["lm-eval", *words[3:]]
        output = io.StringIO()
        with redirect_stdout(output):
            code = {"deepgym": _deepgym, "lm_eval": _lm_eval}[program](self._served(words))
        assert not code, f"{line}: exit {code}\n{output.getvalue()}"
        self.said[line] = output.getvalue()

    def _path(self, line: str) -> str:
        from deepgym_lmeval import tasks_folder

        return line.replace("$(deepgym lm-eval path)", str(tasks_folder()))

    def _served(self, words: list[str]) -> list[str]:
        """The loopback server's model for one of this machine, and two documents of a large suite."""
        if "hf" in words:
            chat = "--apply_chat_template" in words
            words[words.index("hf")] = "local-chat-completions" if chat else "local-completions"
            model = f"model=stub,tokenizer_backend=None,base_url={self.server.url(chat)}"
            words = [model if word.startswith("pretrained=") else word for word in words]
        words = [word.replace("http://localhost:8000", self.server.address) for word in words]
        large = "run" in words and {"deepgym_humaneval", "deepgym_easy_k10"} & set(words)
        return [*words, "--limit", "2"] if large else words


def _deepgym(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def _lm_eval(words: list[str]) -> object:
    """The plain command, without reading lm-eval's own tasks, thousands of files."""
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.tasks import TaskManager

    make = TaskManager.__init__

    def init(manager: Any, *args: Any, **options: Any) -> None:
        make(manager, *args, **{**options, "include_defaults": False})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TaskManager, "__init__", init)
        patched.setattr(sys, "argv", ["lm_eval", *words])
        cli_evaluate()
    return 0


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell in a folder of its own, and lm-eval's logging gone when the test is over."""
    from lm_eval.models.dummy import DummyLM

    # Before 0.4.12 lm-eval looks for this one's tokenizer on the hub.
    monkeypatch.setattr(DummyLM, "tokenizer", None)
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    with loopback(lambda asked: "lol") as server:
        yield Shell(server)
    root.handlers[:] = handlers
    root.setLevel(level)


def run(page: Path, shell: Shell) -> dict[str, Any]:
    """What the page's Python blocks leave behind, run in order with its shell blocks and its JSONL."""
    namespace: dict[str, Any] = {"__name__": "docs_page"}
    for line, language, code in blocks(page, "sh", "python", "json"):
        if language == "json":
            Path("mbpp.jsonl").write_text(code, encoding="utf-8")
        elif language == "sh":
            for command in code.splitlines():
                shell(command)
        else:
            # Newlines before it, so that a traceback shows the line of the page.
            exec(compile("\n" * line + code, str(page.relative_to(ROOT)), "exec"), namespace)
    return namespace


@pytest.mark.local_sandbox
def test_the_pages_lines_and_snippets_run_and_print_what_it_shows(shell: Shell) -> None:
    left = run(PAGE, shell)
    assert left["run"]["score"] == 0.0
    assert len(blocks(PAGE, "python")) == text_of(PAGE).count("\n```py")
    table = text_of(PAGE).partition("prints\n\n```text\n")[2].partition("```")[0]
    assert (
        table
        in shell.said[
            "deepgym lm-eval run --model dummy --tasks deepgym_easy --output_path out --log_samples"
        ]
    )
    assert_named(shell.said["deepgym lm-eval ls"])
    repeated = [asked.body for asked in shell.server.asked if asked.turn]
    assert repeated
    assert {body["seed"] for body in repeated if body["temperature"] == 0.8} == {None}, (
        "what the page says sends none"
    )
    assert Path("again.jsonl").read_text(encoding="utf-8").count("\n") == 8


def assert_named(listed: str) -> None:
    """The page's names are those that ``ls`` lists, its numbers of documents those of the suites."""
    from deepgym import load_suite

    tasks = text_of(PAGE).partition("## The tasks")[2].partition("## Run")[0]
    assert set(re.findall(r"`(deepgym\w*)`", tasks)) <= {line.split()[0] for line in listed.splitlines()}
    sizes = [len(load_suite(name)) for name in ("easy", "medium", "hard", "builtin", "humaneval")]
    assert sizes[3] == sum(sizes[:3])
    easy, medium, hard, builtin, humaneval = sizes
    assert f"| {easy}, {medium} and {hard} of the environments" in tasks
    assert f"| those {builtin} together |" in tasks
    assert f"| the {humaneval} tasks of HumanEval |" in tasks


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.local_sandbox
def test_the_readmes_lines_and_snippet_run(shell: Shell) -> None:
    left = run(README, shell)
    assert left["results"]["results"]["deepgym_two_sum"]["deepgym_verdict,deepgym"] == 1.0


def test_the_pages_table_of_metrics_has_them_all() -> None:
    from deepgym_lmeval.metrics import metric_names

    table = text_of(PAGE).partition("| Metric |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w@]+)`", table, re.MULTILINE) == metric_names(10)


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_a_page_says_that_it_is_run_here_and_pins_what_it_installs(page: Path) -> None:
    assert "\n<!-- needs: lm-eval -->\n" in text_of(page)
    lines = [line for line in commands(page) if "pip install" in line]
    assert lines
    assert all('==1.0.0"' in line for line in lines)
    ranges = re.findall(r"lm-eval(?:\[\w+\])?(>=[^\"`]+)", text_of(page))
    assert set(ranges) == {">=0.4.10,<0.5"}


@pytest.mark.parametrize("page", [PAGE, README], ids=["page", "readme"])
def test_each_name_that_a_page_imports_is_public(page: Path) -> None:
    text = "\n".join(code for _, _, code in blocks(page, "python"))
    imported = re.findall(r"^from (deepgym_lmeval[\w.]*) import (.+)$", text, re.MULTILINE)
    assert imported
    for module, names in imported:
        public = importlib.import_module(module).__all__
        assert {name.strip() for name in names.split(",")} <= set(public), module


@pytest.mark.local_sandbox
def test_the_example_of_an_own_model_prints_what_was_judged_and_what_was_not(
    capsys: pytest.CaptureFixture[str], shell: Shell
) -> None:
    runpy.run_path(str(EXAMPLES / "own_model.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for metric, value in {"verdict": "0.8750", "pass": "0.8571", "judged": "7", "no_verdict": "1"}.items():
        assert re.search(rf"\|deepgym_{metric} *\|. *\| *{value}(?:\.0*)?\|", printed), printed
    runs = dict(line.split(" ", 1) for line in printed.splitlines() if line.endswith("}"))
    scores = {name: json.loads(run)["score"] for name, run in runs.items()}
    assert len(scores) == 8
    assert scores.pop("word_counts") is None
    assert scores.pop("to_roman") < 0.1
    assert set(scores.values()) == {1.0}


@pytest.mark.local_sandbox
def test_the_examples_file_of_settings_runs(shell: Shell) -> None:
    shell(f"deepgym lm-eval run --config {EXAMPLES / 'run.yaml'}")
    logs = {path.name.partition("_2")[0] for path in Path("out").rglob("samples_*.jsonl")}
    assert logs == {"samples_deepgym_easy", "samples_deepgym_two_sum"}
