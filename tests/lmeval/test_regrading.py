"""Logs of real runs, as lm-eval writes them, judged again: the same numbers, without a model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from deepgym import DeepGym, load_environment
from deepgym.contract.evidence import Phase
from deepgym.environments import Environment, load_suite
from deepgym.providers.base import Provider
from deepgym.providers.local import LocalProvider
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task, regrade
from deepgym_lmeval.regrading import Metric, Regraded

from .answers import Answers, canonical, empty, truncated, wrong
from .harness import Run, arguments, command, evaluate, strict, written
from .server import Asked, loopback

pytestmark = pytest.mark.local_sandbox

NAMES = ("deepgym_verdict", "deepgym_score", "deepgym_pass")
SAYS = (canonical, canonical, wrong, truncated, empty, wrong)


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym() as client:
        yield client


@cache
def environments() -> tuple[Environment, ...]:
    """Some of each kind: tasks that are told, and bare beginnings of functions."""
    told = [load_environment("two_sum"), *load_suite("builtin").environments[:3]]
    return (*told, *load_suite("humaneval").environments[30:38])


class Mixed(Answers):
    """Right, wrong, half and no answers, another one each time that a document is asked about."""

    def __init__(self) -> None:
        super().__init__(canonical, environments())

    def __call__(self, asked: Asked) -> str:
        environment = self.environment(asked.prompt)
        at = self.environments.index(environment) + asked.turn
        return SAYS[at % len(SAYS)](environment, asked.chat)


class Struck(FaultyProvider):
    """An outage: each third text has no verdict, whatever the order, but the trial's have."""

    def __init__(self, inner: Provider) -> None:
        super().__init__(inner, Fault("network", Phase.IN_PLAY))

    def strikes(self, answer: str) -> bool:
        return "two_sum" not in answer and sum(answer.encode()) % 3 == 1


def run(
    folder: Path, dg: DeepGym | None, chat: bool = False, repeats: int = 1, **options: Any
) -> tuple[Run, Path]:
    """A run in this process, and the log that lm-eval writes of it."""
    from lm_eval.loggers import EvaluationTracker

    task = make_lm_eval_task(environments(), name="deepgym_some", dg=dg, repeats=repeats)
    with loopback(Mixed()) as server:
        found = evaluate(server, task, chat=chat, **options)
    tracker = EvaluationTracker(output_path=str(folder))
    samples = found.everything["samples"]
    results = {name: value for name, value in found.everything.items() if name != "samples"}
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples("deepgym_some", samples["deepgym_some"])
    (path,) = folder.rglob("samples_deepgym_some_*.jsonl")
    return found, path


def rows(path: Path) -> list[dict[str, Any]]:
    return [strict(text) for text in path.read_text(encoding="utf-8").splitlines()]


def same_numbers(found: Regraded, values: dict[str, Any]) -> None:
    """To the last digit, standard errors included."""
    for name, metric in found.metrics.items():
        assert (metric.value, metric.stderr) == (values[name], values[f"{name}_stderr"]), name
    assert found.judged == values["deepgym_judged"]
    assert sum(found.no_verdict.values()) == values["deepgym_no_verdict"]


@pytest.mark.parametrize("chat", [False, True], ids=["completion", "chat"])
def test_a_log_gives_the_numbers_of_its_run(tmp_path: Path, dg: DeepGym, chat: bool) -> None:
    evaluated, path = run(tmp_path, dg, chat)
    (found,) = regrade([path], dg=dg, out=tmp_path / "again.jsonl")
    same_numbers(found, evaluated.values("deepgym_some"))
    assert 0.2 < (found.metrics["deepgym_pass"].value or 0) < 0.7
    assert (found.documents, found.runs, found.judged, found.anew) == (12, 12, 12, 12)
    assert (found.changed, found.ungraded, found.task) == (0, 0, "deepgym_some")
    assert rows(tmp_path / "again.jsonl") == rows(path)


def test_repeats_give_the_same_pass_at_k(tmp_path: Path, dg: DeepGym) -> None:
    evaluated, path = run(tmp_path, dg, repeats=3)
    (found,) = regrade([path], dg=dg)
    assert list(found.metrics) == [*NAMES, "deepgym_pass@3"]
    same_numbers(found, evaluated.values("deepgym_some"))
    assert found.runs == 36
    assert (found.metrics["deepgym_pass"].value or 0) < (found.metrics["deepgym_pass@3"].value or 0) < 1


def test_predict_only_and_then_regrade_is_a_graded_run(tmp_path: Path, dg: DeepGym) -> None:
    evaluated, graded = run(tmp_path / "graded", dg, repeats=2)
    with DeepGym(provider=FakeProvider()) as none:
        _, path = run(tmp_path / "predicted", none, repeats=2, predict_only=True)
        assert none.provider.opened == 0  # type: ignore[attr-defined]
    (found,) = regrade([path], dg=dg, out=tmp_path / "again.jsonl")
    same_numbers(found, evaluated.values("deepgym_some"))
    assert found.ungraded == found.runs == 24
    assert rows(tmp_path / "again.jsonl") == rows(graded)


def test_after_an_outage_what_was_missing_is_judged_and_nothing_else_changes(
    tmp_path: Path, dg: DeepGym
) -> None:
    whole, graded = run(tmp_path / "whole", dg, repeats=2)
    with DeepGym(provider=Struck(LocalProvider())) as struck:
        evaluated, path = run(tmp_path / "struck", struck, repeats=2)
        (before,) = regrade([path], dg=struck)
    missing = sum(before.no_verdict.values())
    assert 4 <= missing <= 16
    same_numbers(before, evaluated.values("deepgym_some"))
    assert (before.changed, set(before.no_verdict)) == (0, {"network_error"})

    (found,) = regrade([path], dg=dg, only_missing=True, out=tmp_path / "again.jsonl")
    assert (found.anew, found.gained, found.lost, found.moved) == (missing, missing, 0, 0)
    assert found.no_verdict == {}
    same_numbers(found, whole.values("deepgym_some"))
    assert rows(tmp_path / "again.jsonl") == rows(graded)


def test_an_outage_that_is_not_over_leaves_what_it_struck(tmp_path: Path) -> None:
    with DeepGym(provider=Struck(LocalProvider())) as struck:
        evaluated, path = run(tmp_path / "struck", struck)
        (found,) = regrade([path], dg=struck, only_missing=True, out=tmp_path / "again.jsonl")
    same_numbers(found, evaluated.values("deepgym_some"))
    assert found.anew == sum(found.no_verdict.values()) > 0
    assert (found.changed, rows(tmp_path / "again.jsonl")) == (0, rows(path))


def test_a_log_of_the_command_line_is_one_too(tmp_path: Path, dg: DeepGym) -> None:
    """Of two tasks in one folder, with templated messages and lm-eval's own file names."""
    everything = (*load_suite("builtin"), *load_suite("humaneval"))
    with loopback(Answers(canonical, everything)) as server:
        options = ("--output_path", str(tmp_path), "--log_samples", "--limit", "4")
        done = command(*arguments(server, "deepgym_easy,deepgym_humaneval", *options, chat=True))
    assert done.returncode == 0, done.stderr[-2000:]
    found = regrade(sorted(tmp_path.rglob("samples_*.jsonl")), dg=dg, out=tmp_path / "out")
    assert [one.task for one in found] == ["deepgym_easy", "deepgym_humaneval"]
    for one in found:
        same_numbers(one, written(tmp_path).values(one.task))
        assert one.metrics["deepgym_pass"] == Metric(1.0, 0.0)
        assert one.out is not None
        assert rows(one.out) == rows(one.path)


def humaneval_rows(**_: Any) -> dict[str, Any]:
    """HumanEval's rows, as the data set on the hub has them."""
    import gzip

    from datasets import Dataset

    from deepgym.environments.humaneval import data_file

    with gzip.open(data_file(), "rt", encoding="utf-8") as stream:
        return {"test": Dataset.from_list([json.loads(text) for text in stream][:6])}


def test_lm_evals_own_humaneval_log_is_judged_as_ours(tmp_path: Path, dg: DeepGym) -> None:
    """Its task without its metric, which a server on the hub holds."""
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.loggers import EvaluationTracker

    theirs = ConfigurableTask(
        config={
            "task": "humaneval",
            "custom_dataset": humaneval_rows,
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{prompt}}",
            "doc_to_target": "{{test}}\ncheck({{entry_point}})",
            "process_results": lambda doc, results: {"pass@1": float(len(results[0]))},
            "metric_list": [{"metric": "pass@1", "aggregation": "mean", "higher_is_better": True}],
            "generation_kwargs": {
                "until": ["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
                "max_gen_toks": 1024,
            },
            "num_fewshot": 0,
        }
    )
    known = load_suite("humaneval").environments
    says = {environment.name: (canonical, wrong, empty)[at % 3] for at, environment in enumerate(known)}
    with loopback(Answers(says, known)) as server:
        evaluated = evaluate(server, theirs)
    tracker = EvaluationTracker(output_path=str(tmp_path))
    tracker.save_results_aggregated(results={}, samples=None)
    tracker.save_results_samples("humaneval", evaluated.everything["samples"]["humaneval"])
    (path,) = tmp_path.rglob("samples_*.jsonl")
    (found,) = regrade([path], dg=dg, out=tmp_path / "again.jsonl")
    assert (found.task, found.documents, found.ungraded) == ("humaneval", 6, 6)
    assert found.metrics["deepgym_pass"].value == 2 / 6
    assert [row["deepgym_pass"] for row in rows(tmp_path / "again.jsonl")] == [1.0, 0.0, 0.0] * 2
    (again,) = regrade([tmp_path / "again.jsonl"], dg=dg)
    assert dataclasses.replace(again, path=path, task="humaneval", out=found.out, ungraded=6) == found
