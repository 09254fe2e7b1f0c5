from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("lm_eval")

# Before a model of ours: lm-eval 0.4.10 looks for its own only while there is none.
import lm_eval.models  # noqa: F401
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.tasks import TaskManager

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.exceptions import DeepGymError, SandboxError
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_lmeval import task
from deepgym_lmeval.grading import Grader
from deepgym_lmeval.names import folder
from deepgym_lmeval.running import run

from .harness import arguments, command, written
from .server import loopback


@register_model("deepgym-passes")
class Passes(LM):  # type: ignore[misc]
    """Says `pass` to everything. lm-eval's own `dummy` wants a tokenizer from the hub up to 0.4.11."""

    def __init__(self, **_: Any) -> None:
        super().__init__()

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return ["pass"] * len(requests)

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


USERS = """
task: {name}
custom_dataset: !function users.load
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n"]
"""
LOAD = """
from datasets import Dataset

def load(**_):
    return {"test": Dataset.from_list([{"question": "A user's?", "answer": "yes"}])}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What lm-eval's command line sets up logs to the standard error of one test."""
    import lm_eval.utils

    place = (TaskManager.__init__, EvaluatorConfig.process_tasks, sys.argv, list(sys.argv))
    yield
    assert (TaskManager.__init__, EvaluatorConfig.process_tasks, sys.argv, list(sys.argv)) == place
    logger = logging.getLogger("lm_eval")
    logger.handlers.clear()
    logger.propagate, lm_eval.utils._LOGGING_CONFIGURED = True, False


@pytest.fixture
def users(tmp_path: Path) -> Callable[..., Path]:
    def make(*names: str) -> Path:
        where = tmp_path / "users"
        where.mkdir()
        (where / "users.py").write_text(LOAD)
        for name in names:
            (where / f"{name}.yaml").write_text(USERS.format(name=name))
        return where

    return make


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SimpleNamespace]]:
    """With what lm-eval's TaskManager was made; lm-eval's own tasks are never read, which takes seconds."""
    found: list[SimpleNamespace] = []
    make = TaskManager.__init__

    def init(self: Any, verbosity: Any, include_path: Any, include_defaults: bool, **options: Any) -> None:
        found.append(SimpleNamespace(paths=include_path, defaults=include_defaults))
        make(self, verbosity, include_path, False, **options)

    with monkeypatch.context() as patch:
        patch.setattr(TaskManager, "__init__", init)
        yield found
        # The same that was there when the test began, and not what is wrapped around it.
        assert TaskManager.__init__ is init


def predict(*words: str) -> dict[str, list[dict[str, Any]]]:
    """The sample log of `--predict_only` with the model above, by task."""
    run(["--model", "deepgym-passes", "--predict_only", "--output_path", "out", "--limit", "2", *words])
    found: dict[str, list[dict[str, Any]]] = written(Path("out")).everything["samples"]
    return found


def test_a_task_of_ours_runs_without_any_other_option(made: Any) -> None:
    samples = predict("--tasks", "deepgym_humaneval")
    assert [sample["doc"]["task_id"] for sample in samples["deepgym_humaneval"]] == [
        "humaneval/0",
        "humaneval/1",
    ]
    assert [(entry.paths, entry.defaults) for entry in made] == [([str(folder())], False)]


@pytest.mark.parametrize("words", [["deepgym_easy,deepgym_two_sum"], ["deepgym_easy", "deepgym_two_sum"]])
def test_several_tasks_of_ours_need_none_of_lm_evals(words: list[str], made: Any) -> None:
    samples = predict("--tasks", *words)
    assert {name: len(lines) for name, lines in samples.items()} == {"deepgym_easy": 2, "deepgym_two_sum": 1}
    assert made[0].defaults is False


def test_the_tasks_of_a_configuration_file_are_found_too(made: Any, tmp_path: Path) -> None:
    Path("run.yaml").write_text(
        "model: deepgym-passes\ntasks: [deepgym_two_sum]\npredict_only: true\nlimit: 1\noutput_path: out\n"
    )
    run(["--config", "run.yaml"])
    assert set(written(Path("out")).everything["samples"]) == {"deepgym_two_sum"}
    assert made[0].defaults is False


def test_a_users_task_and_ours_run_side_by_side_among_lm_evals_own(users: Any) -> None:
    samples = predict("--include_path", str(users("mine")), "--tasks", "mine,deepgym_two_sum")
    assert samples["mine"][0]["doc"]["question"] == "A user's?"
    assert samples["deepgym_two_sum"][0]["doc"]["task_id"] == "two_sum"


def test_a_users_task_of_the_same_name_wins(users: Any, made: Any) -> None:
    where = users("deepgym_two_sum")
    samples = predict("--include_path", str(where), "--tasks", "deepgym_two_sum")
    assert samples["deepgym_two_sum"][0]["doc"]["question"] == "A user's?"
    assert (made[0].paths, made[0].defaults) == ([str(folder()), str(where)], True)


def test_our_own_folder_named_once_more_is_read_once(made: Any, capfd: pytest.CaptureFixture[str]) -> None:
    samples = predict("--include_path", f"{folder()}/", "--tasks", "deepgym_two_sum")
    assert set(samples) == {"deepgym_two_sum"}
    assert (made[0].paths, made[0].defaults) == ([str(folder())], False)
    assert "overrides existing task" not in capfd.readouterr().err


@pytest.mark.parametrize("form", [str, Path, lambda path: [path], lambda path: [str(path), "none"], tuple])
def test_every_form_of_include_path_is_taken(form: Any, users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    where = users("mine")
    given = form([where]) if form is tuple else form(where)
    seen: list[list[str]] = []

    def find(config: Any, *_: Any, **__: Any) -> None:
        manager = TaskManager(include_path=given, include_defaults=False)
        seen.append(manager.match_tasks(["mine", "deepgym_two_sum", "deepgym"]))

    def evaluate() -> None:
        EvaluatorConfig.process_tasks(SimpleNamespace(include_path=given, tasks="mine", metadata={}))

    monkeypatch.setattr(EvaluatorConfig, "process_tasks", find)
    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", evaluate)
    run([])
    assert seen == [["deepgym", "deepgym_two_sum", "mine"]]


@pytest.mark.parametrize(
    "tasks",
    [
        "deepgym_e*",
        "deepgym_easy,arc_easy",
        "deepgym_humanevl",
        f"{folder()}/deepgym_two_sum.yaml",
        "deepgym_easy",  # a folder, as made below
    ],
)
def test_lm_evals_own_tasks_are_read_where_they_might_matter(
    tasks: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise SystemExit(9)

    Path("deepgym_easy").mkdir()
    monkeypatch.setattr("lm_eval.simple_evaluate", stop, raising=False)
    with pytest.raises((SystemExit, ValueError)):
        run(["--model", "deepgym-passes", "--tasks", tasks])
    assert [entry.defaults for entry in made] == [True]


MBPP = {
    "task_id": 2,
    "text": "Write a function to add two numbers.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3"],
    "test_setup_code": "",
    "challenge_test_list": [],
}


@pytest.mark.parametrize("before", [None, "elsewhere.jsonl"])
def test_the_file_for_mbpp_reaches_its_task(
    before: str | None, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPGYM_MBPP", raising=False)
    if before:
        monkeypatch.setenv("DEEPGYM_MBPP", before)
    Path("mbpp.jsonl").write_text(json.dumps(MBPP) + "\n")
    samples = predict("--tasks", "deepgym_mbpp", "--metadata", '{"mbpp": "mbpp.jsonl"}')
    (sample,) = samples["deepgym_mbpp"]
    assert "add two numbers" in sample["doc"]["question"]
    assert os.environ.get("DEEPGYM_MBPP") == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], '--metadata \'{"mbpp": "mbpp.jsonl"}\''),
        (["--metadata", '{"mbpp": "gone.jsonl"}'], "gone.jsonl"),
        (["--metadata", '{"mbpp": "empty.jsonl"}'], "empty.jsonl"),
    ],
)
def test_what_is_wrong_with_the_file_for_mbpp_is_said_before_a_model_is_loaded(
    words: list[str], message: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPGYM_MBPP", raising=False)
    Path("empty.jsonl").touch()
    with pytest.raises(DeepGymError) as stop:
        run(["--model", "no-such-model", "--tasks", "deepgym_mbpp_k10", *words])
    assert message in str(stop.value)
    assert made == []
    assert "DEEPGYM_MBPP" not in os.environ


def test_a_judge_that_is_broken_is_found_before_a_model_is_loaded(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Grader(DeepGym(provider=FaultyProvider(LocalProvider(), Fault("provider", Phase.OPENED))))
    monkeypatch.setattr(task, "shared_grader", lambda: broken)
    with pytest.raises(SandboxError, match=r"two_sum can't be judged here: .* run: deepgym doctor local"):
        run(["--model", "no-such-model", "--tasks", "deepgym_easy"])
    assert len(predict("--tasks", "deepgym_easy")["deepgym_easy"]) == 2


def test_a_users_own_mbpp_needs_no_file_of_ours(users: Any, made: Any) -> None:
    samples = predict("--include_path", str(users("deepgym_mbpp")), "--tasks", "deepgym_mbpp")
    assert samples["deepgym_mbpp"][0]["doc"]["question"] == "A user's?"


def test_lm_evals_tasks_not_found_comes_as_ever_with_what_may_have_been_meant(made: Any) -> None:
    with pytest.raises(ValueError, match=r"^Tasks not found: ") as stop:
        run(["--model", "deepgym-passes", "--tasks", "deepgym_humanevl,no_such_task"])
    assert str(stop.value) == (
        "Tasks not found: deepgym_humanevl, no_such_task (did you mean deepgym_humaneval? "
        "`deepgym lm-eval ls` lists all of DeepGym's)"
    )


@pytest.mark.parametrize("tasks", ["no_such_task", "deepgym_two_sum,xyz", "deepgymnastics_zzzzzzzzzzzz"])
def test_where_nothing_of_ours_comes_near_the_message_is_lm_evals_alone(tasks: str, made: Any) -> None:
    missing = tasks.rpartition(",")[2]
    with pytest.raises(ValueError, match=r"^Tasks not found: ") as stop:
        run(["--model", "deepgym-passes", "--tasks", tasks])
    assert str(stop.value) == f"Tasks not found: {missing}"


@pytest.mark.parametrize("words", [["--help"], []])
def test_help_is_lm_evals_own(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(words)
    said = capsys.readouterr().out
    assert not stop.value.code
    assert said.startswith("usage: lm-eval run")
    assert all(option in said for option in ("--include_path", "--gen_kwargs", "--predict_only"))


def test_an_option_that_lm_eval_has_not_is_its_parsers_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(["--tasks", "deepgym_two_sum", "--no-such-option"])
    assert stop.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_help_comes_without_waiting_for_lm_evals_tasks() -> None:
    code = """
import sys
from deepgym_lmeval.running import run
try:
    run(["--help"])
finally:
    assert not {"lm_eval.tasks", "datasets", "torch", "transformers"} & set(sys.modules)
"""
    ran = command("-c", code, program=())
    assert (ran.returncode, ran.stderr) == (0, "")


def test_python_m_runs_lm_eval_and_ends_as_it_does(tmp_path: Path) -> None:
    with loopback(lambda asked: "    return None") as server:
        words = arguments(
            server, "deepgym_two_sum", "--predict_only", "--output_path", "out", "--log_samples"
        )
        ran = command(*words)
        assert ran.returncode == 0, ran.stderr
    assert "|deepgym_two_sum|" in ran.stdout
    (sample,) = written(tmp_path / "out").samples("deepgym_two_sum")
    assert sample["resps"] == [["    return None"]]


def test_python_m_shows_what_lm_eval_raises(tmp_path: Path) -> None:
    ran = command("run", "--model", "dummy", "--tasks", "deepgym_two_sum", "--predict_only")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("ValueError: Specify --output_path")
