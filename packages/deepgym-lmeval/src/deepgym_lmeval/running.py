"""lm-eval's own ``run``, with DeepGym's tasks known to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from deepgym.cli.outcome import UsageError
from deepgym.exceptions import DeepGymError

from . import versions
from .names import environments_of, folder, listing, task_name

__all__ = ["run"]

#: Where ``deepgym_mbpp`` looks for its file if it is given no metadata.
_MBPP = "DEEPGYM_MBPP"


def run(arguments: Sequence[str]) -> None:
    """Run ``lm-eval run`` with ``arguments`` as they are, here and now; what it raises is raised.

    Raises:
        UsageError: lm-eval isn't installed, or it is one that this wasn't made for.
        SystemExit: from lm-eval's own parser.
    """
    _require()
    from lm_eval.__main__ import cli_evaluate

    with _replaced(sys, "argv", [sys.argv[0], "run", *arguments]), _known():
        cli_evaluate()


def _require() -> None:
    found = versions.installed()
    if found is None:
        raise UsageError(f"lm-eval isn't installed; run: {versions.INSTALL}")
    if not (0, 4, 10) <= versions.numbers(found) < (0, 5):
        raise UsageError(
            f"lm-eval {found} is installed, and this needs {versions.SUPPORTED}; run: {versions.INSTALL}"
        )


@contextmanager
def _known() -> Iterator[None]:
    """While it lasts, whatever tasks lm-eval's command line looks for, it finds ours too.

    Its ``TaskManager`` is wrapped only once tasks are looked for: importing it takes a second or more, which
    ``--help`` and a misspelt option shouldn't.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    find = getattr(EvaluatorConfig, "process_tasks", None)
    if find is None:
        raise UsageError(
            f"lm-eval {versions.installed()} looks for tasks in a way that isn't known here; "
            'instead: lm_eval run --include_path "$(deepgym lm-eval path)" ...'
        )

    def process_tasks(config: Any, *args: Any, **options: Any) -> Any:
        _take_mbpp(config)
        with _in_front(alone=_only_ours(config)):
            try:
                found = find(config, *args, **options)
            except ValueError as error:
                error.args = (f"{error}{_hint(config)}", *error.args[1:])
                raise
        _try_the_judge(config)
        return found

    file = os.environ.get(_MBPP)
    try:
        with _replaced(EvaluatorConfig, "process_tasks", process_tasks):
            yield
    finally:
        os.environ.pop(_MBPP, None)
        if file is not None:
            os.environ[_MBPP] = file


@contextmanager
def _in_front(*, alone: bool) -> Iterator[None]:
    """While it lasts, a ``TaskManager`` reads our folder before the paths it is given, so that theirs win.

    ``alone``: it doesn't read lm-eval's own tasks, thousands of files.
    """
    from lm_eval.tasks import TaskManager

    make = TaskManager.__init__

    def init(
        manager: Any,
        verbosity: Any = None,
        include_path: Any = None,
        include_defaults: bool = True,
        *args: Any,
        **options: Any,
    ) -> None:
        paths = [str(folder()), *(path for path in _paths(include_path) if not _is_ours(path))]
        make(manager, verbosity, paths, include_defaults and not alone, *args, **options)

    with _replaced(TaskManager, "__init__", init):
        yield


def _paths(include_path: Any) -> list[str]:
    if not include_path:
        return []
    # lm-eval before 0.4.12 takes text and lists of text alone.
    return [
        str(path) for path in (include_path if isinstance(include_path, (list, tuple)) else [include_path])
    ]


def _is_ours(path: str) -> bool:
    """Whether it is our own folder, which read twice would warn of each task."""
    return Path(path).expanduser().resolve() == folder().resolve()


def _asked(config: Any) -> list[str]:
    """The tasks asked for, on the command line or in a file, as lm-eval splits them."""
    tasks = config.tasks
    return [name for task in ([tasks] if isinstance(tasks, str) else tasks) for name in str(task).split(",")]


def _only_ours(config: Any) -> bool:
    """Whether lm-eval's own tasks can't matter: no folder of the user's, no pattern, path or folder."""
    if not all(_is_ours(path) for path in _paths(config.include_path)):
        return False
    known = {name for name, _ in listing()}
    # Up to 0.4.12 a folder of a task's name in the working directory is taken for the task.
    return all(name in known and not Path(name).is_dir() for name in _asked(config))


def _take_mbpp(config: Any) -> None:
    """Hand the file of ``--metadata`` to ``deepgym_mbpp``, and raise now what that would say of it.

    lm-eval makes the tasks once it has loaded the model, and before 0.4.12 it gives ours no metadata.
    """
    path = (config.metadata or {}).get("mbpp")
    if isinstance(path, str) and path:
        os.environ[_MBPP] = str(Path(path).absolute())
    # A folder of the user's may hold another task of that name.
    if config.include_path or not any(name.startswith(task_name("mbpp")) for name in _asked(config)):
        return
    try:
        environments_of("mbpp", os.environ.get(_MBPP))
    except ValueError as error:
        raise error if isinstance(error, DeepGymError) else UsageError(str(error)) from error


def _try_the_judge(config: Any) -> None:
    """Judge a known answer before a model is loaded, which takes minutes if it is a large one.

    Raises:
        SandboxError: nothing can be judged here; the message has the remedy.
    """
    asked = any(name.startswith("deepgym") for name in _asked(config))
    if asked and not config.predict_only:
        from .task import shared_grader

        shared_grader().smoke([])


def _hint(config: Any) -> str:
    """What might have been meant by the names of ours that there aren't; empty if there is no such name."""
    known = [name for name, _ in listing()]
    unknown = [name for name in _asked(config) if name.startswith("deepgym") and name not in known]
    meant = [near for name in unknown for near in get_close_matches(name, known, n=1)]
    return f" (did you mean {', '.join(meant)}? `deepgym lm-eval ls` lists all of DeepGym's)" if meant else ""


@contextmanager
def _replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)
