"""What ``check`` starts in a process of its own: the installed lm-eval, on a model that knows the answers.

``python -m deepgym_lmeval.probe answer.json`` writes one JSON object: for each question its answer, or
``{"error": ...}``. Nothing is downloaded, and answers are graded in the local sandbox.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["LOST", "SUITE", "TOUCHES", "main"]

#: A suite, and what becomes of two of its documents: one has no verdict, one is answered wrongly.
SUITE = "easy"
LOST, WRONG = "word_counts", "to_roman"
_MARK = "\n# no verdict for this one\n"

#: What this package uses of lm-eval's classes: ``module:class.attribute``; of functions, a parameter.
TOUCHES = (
    *(
        f"lm_eval.api.task:ConfigurableTask.{name}"
        for name in (
            "aggregation",
            "apply_filters",
            "build_all_requests",
            "construct_requests",
            "doc_to_target",
            "doc_to_text",
            "download",
            "dump_config",
            "override_metric",
            "process_results",
            "task_name",
        )
    ),
    "lm_eval.api.filter:Filter.apply",
    "lm_eval.api.filter:FilterEnsemble.apply",
    "lm_eval.api.metrics:mean",
    "lm_eval.tasks:TaskManager.__init__(include_path)",
    "lm_eval.tasks:TaskManager.__init__(include_defaults)",
    "lm_eval.tasks:TaskManager.__init__(metadata)",
    "lm_eval.config.evaluate_config:EvaluatorConfig.process_tasks",
    "lm_eval.__main__:cli_evaluate",
    "lm_eval:simple_evaluate(confirm_run_unsafe_code)",
    "lm_eval:simple_evaluate(task_manager)",
)
#: What an instance of a task has besides.
_HELD = ("_aggregation_list", "_filters", "_instances")


def main(path: str) -> None:
    """Answer all questions into the file ``path``. A question that raises has its error as its answer."""
    questions: dict[str, Callable[[], Any]] = {
        "by_name": by_name,
        "outage": outage,
        "ranks": two_ranks,
        "log": log_faults,
        "missing": missing_parts,
    }
    Path(path).write_text(json.dumps({name: _answered(ask) for name, ask in questions.items()}))


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - whatever lm-eval raises here is what was asked
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def by_name() -> dict[str, Any]:
    """Metrics of one environment's reference, its task found by its name."""
    found = evaluated("deepgym_two_sum")
    return {"task": "deepgym_two_sum", **_metrics(found, "deepgym_two_sum")}


def outage() -> dict[str, Any]:
    """Metrics of a suite with one wrong answer and one run without a verdict, and its number of documents."""
    found, _ = _suite()
    return {"documents": len(_known()), **_metrics(found, _task().task_name)}


def two_ranks() -> dict[str, list[float]]:
    """Mean and standard error of two ranks' scores, of which one is missing; and of those that are there."""
    from lm_eval.api.metrics import mean, stderr_for_metric

    task = _task()
    task.build_all_requests(rank=0, world_size=2)
    first, second = [1.0, 0.25, 0.0], [None, 1.0, 1.0]
    together: list[float | None] = [*first, *second]
    judged = [value for value in together if value is not None]
    aggregation = task.aggregation()["deepgym_score"]
    return {
        "with": [aggregation(together), stderr_for_metric(aggregation, 1000)(together)],
        "without": [mean(judged), stderr_for_metric(mean, 1000)(judged)],
    }


def log_faults() -> list[str]:
    """What is wrong with the sample log that lm-eval wrote of the suite."""
    from .graded import Graded

    _, log = _suite()
    lines = [json.loads(line, parse_constant=_refuse) for line in log.splitlines()]
    faults = [] if len(lines) == len(_known()) else [f"{len(lines)} lines for {len(_known())} documents"]
    for line in lines:
        name, (texts,) = line["doc"]["task_id"], line["filtered_resps"]
        runs = [Graded.parse(text) for text in texts]
        if len(runs) != 1 or runs[0] is None:
            faults.append(f"{name} has no run")
        elif runs[0].has_verdict == (name == LOST):
            faults.append(f"{name} is logged as {runs[0]}")
    return faults


def missing_parts() -> list[str]:
    """Names of what this package uses of lm-eval and the installed one doesn't have."""
    task = _task()
    task.build_all_requests(rank=0, world_size=1)
    held = [f"ConfigurableTask().{name}" for name in _HELD if not hasattr(task, name)]
    return sorted([*(name for name in TOUCHES if not _is_there(name)), *held])


def evaluated(task: Any, **options: Any) -> dict[str, Any]:
    """What ``lm_eval.simple_evaluate`` returns for ``task`` and a model that knows the answers."""
    import lm_eval

    from .making import task_manager

    known = {environment.name: environment.reference or "" for environment in _known()}
    said = {**known, LOST: known[LOST] + _MARK, WRONG: "pass"}
    model = _model({name: f"{code}\n```" for name, code in said.items()})
    found: dict[str, Any] = lm_eval.simple_evaluate(
        model=model,
        tasks=[task],
        task_manager=task_manager(include_defaults=False),
        confirm_run_unsafe_code=True,
        **options,
    )
    return found


def _model(answers: Mapping[str, str]) -> Any:
    """A model that answers a document as ``answers`` says for its environment."""
    from lm_eval.api.model import LM

    class Replayed(LM):  # type: ignore[misc]
        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            return [answers[request.doc["task_id"]] for request in requests]

        def loglikelihood(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    return Replayed()


@cache
def _known() -> tuple[Any, ...]:
    from deepgym.environments import load_suite

    return load_suite(SUITE).environments


@cache
def _task() -> Any:
    """The suite's task, with a provider that fails the run of one answer."""
    from deepgym import DeepGym
    from deepgym.contract.evidence import Phase
    from deepgym.providers.local import LocalProvider
    from deepgym.testing import Fault, FaultyProvider

    from .making import make_lm_eval_task

    (lost,) = [environment for environment in _known() if environment.name == LOST]
    struck = [f"{lost.reference or ''}{_MARK}"]
    provider = FaultyProvider(LocalProvider(), Fault("provider", Phase.OPENED), answers=struck)
    return make_lm_eval_task(SUITE, dg=DeepGym(provider=provider))


@cache
def _suite() -> tuple[dict[str, Any], str]:
    """The results of the suite's task, and the sample log that lm-eval writes."""
    from lm_eval.loggers import EvaluationTracker

    with tempfile.TemporaryDirectory() as folder:
        tracker = EvaluationTracker(output_path=str(Path(folder, "results.json")))
        found = evaluated(_task(), evaluation_tracker=tracker)
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        for name, lines in samples.items():
            tracker.save_results_samples(task_name=name, samples=lines)
        (log,) = Path(folder).glob("samples_*.jsonl")
        return found, log.read_text(encoding="utf-8")


def _metrics(found: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The task's numbers, by their names without the filter's."""
    results = found["results"][task]
    numbers = {key.partition(",")[0]: value for key, value in results.items() if "," in key}
    return {name: value for name, value in numbers.items() if isinstance(value, (int, float))}


def _is_there(name: str) -> bool:
    module, _, path = name.partition(":")
    path, _, parameter = path.rstrip(")").partition("(")
    try:
        found: Any = import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        return False
    return not parameter or parameter in inspect.signature(found).parameters


def _refuse(constant: str) -> Any:
    raise ValueError(f"the log holds {constant}, which isn't JSON")


if __name__ == "__main__":
    main(sys.argv[1])
