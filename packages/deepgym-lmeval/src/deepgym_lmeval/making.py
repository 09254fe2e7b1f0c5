"""Tasks and a task manager for lm-eval's Python interface."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deepgym.environments import Environment, Suite, load_environment, load_suite
from deepgym.environments.suites import list_suites

from . import names
from .grading import Grader
from .versions import installed, missing, numbers

if TYPE_CHECKING:
    from lm_eval.tasks import TaskManager

    from deepgym.client import DeepGym

    from .task import DeepGymTask

    #: An environment, its name or folder, a suite, its name or JSONL file, or several environments.
    Envs: TypeAlias = Environment | Suite | str | os.PathLike[str] | Sequence[Environment | str]

__all__ = ["make_lm_eval_task", "task_manager"]

#: Before, lm-eval can't print the place of a task that it was given as an object.
_OBJECTS_FROM = (0, 4, 12)


def make_lm_eval_task(
    env: Envs,
    *,
    name: str | None = None,
    repeats: int = 1,
    k: int | None = None,
    dg: DeepGym | None = None,
    max_parallel: int | None = None,
    **config: Any,
) -> DeepGymTask:
    """A task for ``lm_eval.simple_evaluate(tasks=[task])``, with a document for each environment.

    Args:
        env: An environment, a suite, their name or path (``.jsonl`` for a suite), or several environments.
        name: The task's name in results; by default made of the environment's or suite's.
        repeats: Completions of each document, sampled if there are several.
        k: Of pass@k; by default ``repeats``. More repeats than k leave room for runs without a verdict.
        dg: The client; by default one with the local sandbox.
        max_parallel: Runs at once; by default as many as the provider has room for.
        config: Further fields of lm-eval's task configuration, such as ``generation_kwargs``.

    Raises:
        UnknownNameError, InvalidEnvironmentError, ValueError: there is no such environment or suite, or no
            pass@k of so few repeats.
        MissingPackageError: lm-eval isn't installed; the message has the line that installs it.
    """
    if repeats < 1 or (k is not None and not 1 <= k <= repeats):
        raise ValueError(f"repeats={repeats}, k={k}: at least 1 completion, and k of 1 to repeats")
    found, label = _environments(env)
    try:
        from .task import DeepGymTask
    except ModuleNotFoundError as error:
        raise missing(error) from error
    settings = {"task": name or names.task_name(label), "repeats": repeats, **config}
    grader = None if dg is None and max_parallel is None else Grader(dg, max_parallel)
    return DeepGymTask(settings, environments=found, grader=grader, k=k)


def task_manager(include_path: object = None, **options: Any) -> TaskManager:
    """lm-eval's ``TaskManager`` that knows DeepGym's tasks too.

    Args:
        include_path: A folder of your own, or several; its tasks win over DeepGym's of the same name.
        options: Whatever else ``TaskManager`` takes, such as ``include_defaults=False``, which saves seconds.

    Raises:
        MissingPackageError: lm-eval isn't installed; the message has the line that installs it.
    """
    try:
        from lm_eval.tasks import TaskManager
    except ModuleNotFoundError as error:
        raise missing(error) from error
    paths = [] if include_path is None else include_path
    paths = list(paths) if isinstance(paths, (list, tuple)) else [paths]
    manager = TaskManager(include_path=[str(names.folder()), *map(str, paths)], **options)
    if numbers(installed() or "") < _OBJECTS_FROM:
        manager._task_index = _AnyTask(manager._task_index)
    return manager


class _AnyTask(dict[str, Any]):
    """lm-eval's index where it looks up even the file of a task that it was given as an object."""

    def __missing__(self, name: str) -> dict[str, Any]:
        return {"type": "python_task", "yaml_path": str(names.folder())}


def _environments(env: Envs) -> tuple[tuple[Environment, ...], str]:
    """The environments, and what to call them."""
    if isinstance(env, Environment):
        return (env,), env.name
    if isinstance(env, Suite):
        return names.distinct(env), env.name
    if isinstance(env, (str, os.PathLike)):
        text = os.fspath(env)
        if text in list_suites() or text.endswith((".jsonl", ".jsonl.gz")):
            suite = load_suite(env)
            return names.distinct(suite), suite.name
        found = load_environment(env)
        return (found,), found.name
    several = [one if isinstance(one, Environment) else load_environment(one) for one in env]
    return names.distinct(several), "environments" if len(several) != 1 else several[0].name
