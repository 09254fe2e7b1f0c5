from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deepgym_lmeval.cli
from deepgym import DeepGym
from deepgym.cli import main
from deepgym.contract.evidence import Phase
from deepgym.environments import load_environment
from deepgym.integrations import checking
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_lmeval.documents import rows
from deepgym_lmeval.names import folder, listing


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def call(*words: str) -> Ran:
        with pytest.raises(SystemExit) as stop:
            main(["lm-eval", *words])
        out, err = capsys.readouterr()
        return Ran(int(stop.value.code or 0), out, err)

    return call


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def one_line(ran: Ran) -> str:
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    return ran.err


def test_ls_has_a_line_for_each_name_and_says_what_it_is(cli: Any) -> None:
    ran = cli("ls")
    lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert ran.code == 0
    assert lines == dict(listing())
    assert {"deepgym", "deepgym_humaneval", "deepgym_mbpp", "deepgym_easy", "deepgym_two_sum_k10"} <= {*lines}
    assert "164 documents" in lines["deepgym_humaneval"]


def test_ls_as_json_is_one_document(cli: Any) -> None:
    found = json.loads(cli("ls", "--json").out)
    assert [(entry["name"], entry["about"]) for entry in found] == listing()


def test_path_prints_the_folder_alone(cli: Any) -> None:
    ran = cli("path")
    assert (ran.code, ran.out, ran.err) == (0, f"{folder()}\n", "")
    assert {path.stem for path in folder().glob("*.yaml")} == {name for name, _ in listing()}


def test_neither_lm_eval_nor_what_it_brings_is_loaded() -> None:
    code = """
import sys
from deepgym_lmeval.cli import app
for words in (["ls"], ["path"], ["regrade", "--help"]):
    try:
        app(words)
    except SystemExit as stop:
        assert not stop.code, stop.code
print(*sorted({"lm_eval", "datasets", "torch", "transformers", "evaluate"} & set(sys.modules)), file=sys.stderr)
"""
    ran = python("-c", code)
    assert (ran.returncode, ran.stderr) == (0, "\n")


def test_python_m_is_the_same_app() -> None:
    ran = python("-m", "deepgym_lmeval", "path")
    assert (ran.returncode, ran.stdout) == (0, f"{folder()}\n")
    ran = python("-m", "deepgym_lmeval", "--tasks", "deepgym_humaneval")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "deepgym lm-eval run --tasks" in ran.stderr


def test_lm_evals_options_in_front_of_run_are_told_where_they_belong(cli: Any) -> None:
    said = one_line(cli("--model", "hf", "run", "--tasks", "deepgym_humaneval"))
    assert "deepgym lm-eval run --model ..." in said


def test_help_lists_the_commands(cli: Any) -> None:
    ran = cli("--help")
    assert ran.code == 0
    assert all(name in ran.out for name in ("run", "ls", "path", "regrade"))


@pytest.mark.parametrize(
    "words", [("ls", "--all"), ("ls", "tasks"), ("regrade",), ("regrade", "--model", "hf")]
)
def test_what_a_command_does_not_take_is_an_error_of_usage(words: tuple[str, ...], cli: Any) -> None:
    ran = cli(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_run_without_lm_eval_says_what_to_install(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checking, "version", version)
    assert 'pip install "deepgym-lmeval[trainer]==1.0.0"' in one_line(
        cli("run", "--tasks", "deepgym_humaneval")
    )


Harness = Callable[..., None]
CONFIG = "class EvaluatorConfig:\n    def process_tasks(self, metadata=None): ...\n"


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """An installed lm-eval of any version, whose command line does what ``body`` says."""
    real = _forget_lm_eval()
    package = tmp_path / "lm_eval"
    (package / "config").mkdir(parents=True)
    for module in ("__init__", "config/__init__"):
        (package / f"{module}.py").touch()

    def install(version: str, body: str = "...", config: str = CONFIG) -> None:
        meta = tmp_path / f"lm_eval-{version}.dist-info"
        meta.mkdir()
        (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: lm_eval\nVersion: {version}\n")
        (package / "config" / "evaluate_config.py").write_text(config)
        (package / "__main__.py").write_text(f"import json, sys\ndef cli_evaluate():\n    {body}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    _forget_lm_eval()
    sys.modules.update(real)


def _forget_lm_eval() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "lm_eval"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.mark.parametrize("version", ["0.4.9.2", "0.4.8", "0.5.0.dev1", "0.5.0", "1.0", "unknown"])
def test_run_with_another_lm_eval_names_its_version_and_the_remedy(
    version: str, cli: Any, harness: Harness
) -> None:
    harness(version)
    said = one_line(cli("run", "--tasks", "deepgym_humaneval"))
    assert f"lm-eval {version} is installed" in said
    assert ">=0.4.10,<0.5" in said
    assert 'pip install "deepgym-lmeval[trainer]==1.0.0"' in said


@pytest.mark.parametrize("version", ["0.4.10", "0.4.13", "0.4.14rc1", "0.4.99+local"])
def test_every_argument_reaches_lm_eval_as_it_is(version: str, cli: Any, harness: Harness) -> None:
    harness(version, "print(json.dumps(sys.argv[1:]))")
    before = list(sys.argv)
    words = [
        "--help",
        "-x",
        "-sx",
        "--tasks",
        "a,b",
        "c*",
        "--",
        "--json",
        "",
        "--gen_kwargs",
        "stop=['\\n']",
        "ü",
    ]
    ran = cli("run", *words)
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == ["run", *words]
    assert json.loads(cli("run").out) == ["run"]
    assert sys.argv == before


@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit(2)", 2)])
def test_lm_evals_exit_code_is_the_commands(body: str, code: int, cli: Any, harness: Harness) -> None:
    harness("0.4.13", body)
    assert cli("run", "--tasks", "deepgym_humaneval").code == code


@pytest.mark.parametrize("error", ["ValueError", "EOFError", "BrokenPipeError", "KeyError"])
def test_what_lm_eval_raises_is_shown_with_its_traceback(error: str, cli: Any, harness: Harness) -> None:
    harness("0.4.13", f"raise {error}(32, 'a pipe to a worker')")
    ran = cli("run", "--tasks", "deepgym_humaneval")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Traceback")
    assert "in cli_evaluate" in ran.err
    assert "typer" not in ran.err
    assert ran.err.splitlines()[-1].startswith(error)
    assert "a pipe to a worker" in ran.err.splitlines()[-1]


def test_what_deepgym_raises_below_lm_eval_is_one_line(cli: Any, harness: Harness) -> None:
    harness("0.4.13", "from deepgym.exceptions import SandboxError; raise SandboxError('no namespaces here')")
    ran = cli("run", "--tasks", "deepgym_humaneval")
    assert (ran.code, ran.out, ran.err) == (3, "", "error: no namespaces here\n")


def test_ctrl_c_in_lm_eval_ends_with_130(cli: Any, harness: Harness) -> None:
    harness("0.4.13", "import signal; signal.raise_signal(signal.SIGINT)")
    ran = cli("run", "--tasks", "deepgym_humaneval")
    assert (ran.code, ran.err) == (130, "")


def test_an_lm_eval_that_looks_for_tasks_otherwise_is_told_of_with_another_way(
    cli: Any, harness: Harness
) -> None:
    harness("0.4.14", config="class EvaluatorConfig: ...")
    said = one_line(cli("run", "--tasks", "deepgym_humaneval"))
    assert 'lm_eval run --include_path "$(deepgym lm-eval path)"' in said


def sample(name: str, number: int, *texts: str, **fields: Any) -> dict[str, Any]:
    """A line of lm-eval's log of a task that nothing graded."""
    (doc,) = rows([load_environment(name)])
    return {
        "doc_id": number,
        "doc": doc,
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": doc["prompt"], "arg_1": {}}},
        "resps": [list(texts)],
        "filtered_resps": [list(texts)],
        "filter": "deepgym",
        **fields,
    }


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: dict[str, Any], task: str = "deepgym_easy") -> str:
        path = tmp_path / f"samples_{task}_2026-11-30T12-00-00.000000.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


TWO_SUM = load_environment("two_sum")
RIGHT = TWO_SUM.reference or ""
WRONG = "def two_sum(nums, target):\n    return []\n"
LOST = "def two_sum(nums, target):\n    return lost\n"


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge whose network fails whenever it comes to ``LOST``."""
    scope: dict[str, Any] = {}
    exec(RIGHT, scope)
    provider = FakeProvider({RIGHT: scope["two_sum"], WRONG: lambda nums, target: []})
    lost = FaultyProvider(provider, Fault("network", Phase.OPENED), answers={LOST})
    monkeypatch.setattr(deepgym_lmeval.cli, "client", lambda mode, isolation: DeepGym(provider=lost))


def graded(score: float | None, **fields: Any) -> str:
    return json.dumps({"score": score, "passed": score == 1.0, "answer_sha256": "0" * 64, **fields})


@pytest.mark.local_sandbox
def test_regrade_prints_a_line_for_each_metric_and_what_was_judged(cli: Any, log: Any) -> None:
    ran = cli("regrade", log(sample("two_sum", 0, RIGHT), sample("two_sum", 1, WRONG)))
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()[:4]] == [
        ["task", "metric", "value", "stderr"],
        ["deepgym_easy", "deepgym_verdict", "1.0000", "0.0000"],
        ["deepgym_easy", "deepgym_score", "0.5000", "0.5000"],
        ["deepgym_easy", "deepgym_pass", "0.5000", "0.5000"],
    ]
    assert ran.out.splitlines()[4:] == ["deepgym_easy: 2 of 2 runs of 2 documents have a verdict"]


@pytest.mark.usefixtures("faulty")
def test_regrade_exits_3_if_a_run_has_no_verdict_and_says_why(cli: Any, log: Any) -> None:
    ran = cli("regrade", log(sample("two_sum", 0, RIGHT), sample("two_sum", 1, LOST)))
    assert ran.code == 3
    assert [line.split()[1:] for line in ran.out.splitlines()[1:4]] == [
        ["deepgym_verdict", "0.5000", "0.5000"],
        ["deepgym_score", "1.0000", "-"],
        ["deepgym_pass", "1.0000", "-"],
    ]
    (said,) = ran.out.splitlines()[4:]
    assert said == ("deepgym_easy: 1 of 2 runs of 2 documents have a verdict; without one: 1 network_error")


@pytest.mark.usefixtures("faulty")
def test_regrade_says_what_is_new_and_where_it_was_written(cli: Any, log: Any, tmp_path: Path) -> None:
    none = graded(None, error_type="network_error", error="down")
    path = log(
        sample("two_sum", 0, RIGHT, filtered_resps=[[none]], deepgym_verdict=0.0),
        sample("two_sum", 1, WRONG, filtered_resps=[[graded(0.0)]], deepgym_verdict=1.0),
    )
    ran = cli("regrade", path, "--only-missing", "--out", str(tmp_path / "new.jsonl"))
    assert ran.code == 0
    (said,) = ran.out.splitlines()[4:]
    assert said == (
        "deepgym_easy: 2 of 2 runs of 2 documents have a verdict; 1 were judged now; against the log "
        f"1 gained a verdict, 0 lost it, 0 changed; written to {tmp_path / 'new.jsonl'}"
    )
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert [line["deepgym_score"] for line in lines] == [1.0, 0.0]


@pytest.mark.usefixtures("faulty")
def test_regrade_as_json_has_every_count_and_is_strict(cli: Any, log: Any) -> None:
    path = log(sample("two_sum", 0, LOST))
    ran = cli("regrade", path, "--json")
    assert ran.code == 3
    nothing = {"value": None, "stderr": None}
    assert json.loads(ran.out) == [
        {
            "path": path,
            "task": "deepgym_easy",
            "documents": 1,
            "runs": 1,
            "judged": 0,
            "anew": 1,
            "gained": 0,
            "lost": 0,
            "moved": 0,
            "ungraded": 1,
            "no_verdict": {"network_error": 1},
            "metrics": {
                "deepgym_verdict": {"value": 0.0, "stderr": None},
                "deepgym_score": nothing,
                "deepgym_pass": nothing,
            },
            "out": None,
        }
    ]


def test_regrade_of_what_is_no_file_is_said_before_anything_is_opened(
    cli: Any, log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepgym_lmeval.cli, "client", None)
    path = log(sample("two_sum", 0, RIGHT))
    assert "gone.jsonl doesn't exist" in one_line(cli("regrade", path, str(tmp_path / "gone.jsonl")))
    assert f"is a folder; give the files in it: {tmp_path}/samples_*.jsonl" in one_line(
        cli("regrade", str(tmp_path))
    )


def test_regrade_of_what_is_no_log_names_the_line(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "results_\x1b[2J.json"
    path.write_text('{"results": {}}\n')
    said = one_line(cli("regrade", str(path)))
    assert "line 1" in said
    assert "\x1b" not in said


def test_regrade_with_a_suite_that_there_is_not_says_so(cli: Any, log: Any) -> None:
    assert "humanevl" in one_line(cli("regrade", log(sample("two_sum", 0, RIGHT)), "--suite", "humanevl"))


def test_regrade_does_not_write_over_what_it_reads(cli: Any, log: Any) -> None:
    path = log(sample("two_sum", 0, RIGHT))
    assert "never overwritten" in one_line(cli("regrade", path, "--out", path))


def test_regrade_with_walls_that_there_are_not_says_so(cli: Any, log: Any) -> None:
    path = log(sample("two_sum", 0, RIGHT))
    assert "paper" in one_line(cli("regrade", path, "--isolation", "paper"))
