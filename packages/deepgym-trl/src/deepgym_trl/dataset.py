"""Training rows made of environments, and rows that are checked before training starts.

A row holds the prompt and the environment's name. Never a hidden test or a reference: TRL prints all columns
of a row that got no reward, and saves them with the completions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deepgym.environments import Environment, MultiTurnEnvironment, Suite
from deepgym.environments.prompts import prompt_text
from deepgym.exceptions import MissingPackageError, UnknownNameError

from .dataset_check import RESERVED, DatasetError, check_dataset

if TYPE_CHECKING:
    from datasets import Dataset

    #: An environment, its name, or the path of its folder.
    Task: TypeAlias = Environment | MultiTurnEnvironment | str | os.PathLike[str]
    Tasks: TypeAlias = Task | Suite | Sequence[Task]

__all__ = [
    "DatasetError",
    "build_dataset",
    "check_dataset",
    "prompt_rows",
    "prompt_text",
    "write_jsonl",
]


def build_dataset(
    env: Tasks,
    *,
    text: bool = False,
    system: str | None = None,
    instruction: str | None = None,
    repeat: int = 1,
    env_column: str = "env_id",
    **columns: object,
) -> Dataset:
    """A ``datasets.Dataset`` of ``prompt_rows``, for a trainer's ``train_dataset``.

    Raises:
        MissingPackageError: ``datasets`` isn't installed; the message has the line that installs it.
        ValueError, UnknownNameError, InvalidEnvironmentError: as ``prompt_rows``.
    """
    rows = prompt_rows(
        env,
        text=text,
        system=system,
        instruction=instruction,
        repeat=repeat,
        env_column=env_column,
        **columns,
    )
    try:
        from datasets import Dataset
    except ModuleNotFoundError as error:
        if error.name != "datasets":
            raise
        line = 'pip install "deepgym-trl[trainer]==1.0.0"'
        raise MissingPackageError(f"the datasets package isn't installed; run: {line}") from error
    return Dataset.from_list(rows)


def prompt_rows(
    env: Tasks,
    *,
    text: bool = False,
    system: str | None = None,
    instruction: str | None = None,
    repeat: int = 1,
    env_column: str = "env_id",
    **columns: object,
) -> list[dict[str, Any]]:
    """One row for each environment, all of them ``repeat`` times: ``prompt``, ``env_id``, your own columns.

    Args:
        env: An environment, its name or its folder's path; a list of these; or a suite.
        text: Prompts as text, for a model without a chat template, instead of messages.
        system: A system message (with ``text``: what the prompt begins with).
        instruction: How to answer, said after the task. ``None``: in one fenced code block. ``""``: nothing,
            so that a HumanEval task is its bare code, for a model to continue.
        repeat: Rows of each environment. TRL repeats a row ``num_generations`` times by itself.
        env_column: The name of the column with the environment's name.
        columns: Further columns: a list with one value for each environment, a function of the
            environment, or one value for all. One named as ``env_column`` replaces the environments'
            names, say by their paths.

    Raises:
        ValueError: a column has a name of TRL's own or too few values, ``repeat`` is below 1, or two
            different environments have one name.
        UnknownNameError: no such environment; the message has the closest names.
        InvalidEnvironmentError: a folder holds no valid environment.
    """
    if repeat < 1:
        raise ValueError(f"repeat={repeat}: at least 1 row of each environment")
    environments = _environments(env)
    extra = {name: _column(name, value, environments) for name, value in columns.items()}
    taken = sorted(RESERVED & {*columns, env_column})
    if taken:
        raise ValueError(f"TRL itself gives reward functions a {taken[0]!r}; rename that column")
    rows = []
    for index, environment in enumerate(environments):
        prompt = _prompt(prompt_text(environment, instruction), text, system)
        own = {name: values[index] for name, values in extra.items()}
        rows.append({"prompt": prompt, env_column: environment.name, **own})
    return [_copy(row) for _ in range(repeat) for row in rows]


def write_jsonl(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines, for ``datasets: [{path: json, data_files: ...}]`` of a YAML run.

    Returns how many there were. ``OSError`` if the file can't be written.
    """
    lines = [json.dumps(dict(row)) for row in rows]
    Path(path).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return len(lines)


def _environments(env: Tasks) -> list[Environment | MultiTurnEnvironment]:
    if isinstance(env, Suite):
        found: list[Environment | MultiTurnEnvironment] = list(env)
    elif isinstance(env, (Environment, MultiTurnEnvironment, str, os.PathLike)):
        found = [_loaded(env)]
    else:
        found = [_loaded(one) for one in env]
    if not found:
        raise ValueError("no environment: give at least one")
    known: dict[str, Environment | MultiTurnEnvironment] = {}
    for environment in found:
        if known.setdefault(environment.name, environment) != environment:
            raise ValueError(
                f"two different environments are named {environment.name!r}; rename one: "
                "environment.model_copy(update={'name': ...})"
            )
    return found


def _loaded(env: Task) -> Environment | MultiTurnEnvironment:
    from deepgym.environments.registry import load_task
    from deepgym.environments.suites import list_suites

    if isinstance(env, (Environment, MultiTurnEnvironment)):
        return env
    try:
        return load_task(env)
    except UnknownNameError as error:
        if env in list_suites():
            raise UnknownNameError(f"{env!r} is a suite: pass load_suite({env!r})", str(env)) from error
        raise


def _column(
    name: str, value: object, environments: Sequence[Environment | MultiTurnEnvironment]
) -> list[object]:
    if callable(value):
        return [value(environment) for environment in environments]
    if not isinstance(value, (list, tuple)):
        return [value] * len(environments)
    if len(value) != len(environments):
        raise ValueError(
            f"column {name!r} has {len(value)} value(s) for {len(environments)} environment(s); give one for "
            "each, a function of the environment, or one value for all"
        )
    return list(value)


def _prompt(text: str, plain: bool, system: str | None) -> str | list[dict[str, str]]:
    if plain:
        return f"{system}\n\n{text}" if system else text
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": text}]


def _copy(row: dict[str, Any]) -> dict[str, Any]:
    prompt = row["prompt"]
    return {**row, "prompt": prompt if isinstance(prompt, str) else [dict(message) for message in prompt]}
