"""Rows of a data set for verl, made of environments: a prompt, and which environment grades its answers.

Never a hidden test or a reference: verl writes rows to its dumps and its loggers. Whatever grades has the
environment by its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgym.environments import Environment, MultiTurnEnvironment, Suite, load_suite
from deepgym.environments.prompts import prompt_text
from deepgym.environments.registry import load_task
from deepgym.environments.suites import list_suites
from deepgym.exceptions import DeepGymError, MissingPackageError

if TYPE_CHECKING:
    from deepgym.integrations.labels import Task, TaskEnvs

__all__ = ["AUTO", "RowsError", "check_rows", "tasks_of", "verl_rows", "write_parquet"]

#: ``agent_name`` by the kind of each row's environment.
AUTO = "auto"
_SINGLE, _AGENT = "deepgym_single_turn", "deepgym_agent"
#: What verl makes of each row by itself.
_VERLS = ("raw_prompt", "index", "tools_kwargs", "interaction_kwargs", "dummy_tensor", "uid")
_SUITES = (".jsonl", ".jsonl.gz")
_INSTALL = 'pip install "deepgym-verl[rows]==1.0.0"'


class RowsError(DeepGymError, ValueError):
    """Rows that verl can't train on; the message has the row, what is wrong with it, and what would do."""


def verl_rows(
    env: TaskEnvs,
    *,
    system: str | None = None,
    instruction: str | None = None,
    split: str = "train",
    repeat: int = 1,
    data_source: str | None = None,
    agent_name: str | None = AUTO,
) -> list[dict[str, Any]]:
    """One row for each environment, all of them ``repeat`` times.

    Args:
        env: An environment, its name or folder; a suite, its name or JSONL file; or several of these. Those
            that an agent works on in steps may be among them.
        system: A system message.
        instruction: How to answer, said after the task. ``None``: in one fenced code block (an agent's task
            is said alone). ``""``: nothing.
        split: Noted in each row.
        repeat: Rows of each environment. verl samples ``actor_rollout_ref.rollout.n`` answers for a row, and
            drops what doesn't fill a batch of ``data.train_batch_size`` rows.
        data_source: By which verl's validation groups its metrics; ``None``: ``deepgym/`` and the name of the
            suite, or of the environment if it is in none.
        agent_name: The agent loop. ``"auto"``: ``deepgym_agent`` where an agent works in steps, else
            ``deepgym_single_turn``, which every trainer of verl's can use; ``compute_score`` alone is for the
            v1 trainer. ``None``: no such column, so ``actor_rollout_ref.rollout.agent.default_agent_loop``
            decides, and with verl's own ``single_turn_agent`` it is ``compute_score`` that grades.

    Raises:
        RowsError: no environment, two of one name, ``repeat`` below 1, a prompt is empty, or an agent loop
            isn't one for its environment.
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: there is no such environment.
    """
    if repeat < 1:
        raise RowsError(f"repeat={repeat}: at least 1 row of each environment")
    found = tasks_of(env)
    rows = []
    for index, (source, task) in enumerate(found * repeat):
        text = prompt_text(task, instruction)
        row = {
            "data_source": data_source or f"deepgym/{source}",
            "prompt": [*_said("system", system), *_said("user", text)],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": task.name},
            "extra_info": {"index": index, "env": task.name, "split": split, "need_tools_kwargs": False},
        }
        loop = _loop(task, agent_name)
        rows.append(row if loop is None else {**row, "agent_name": loop})
    check_rows(rows)
    return rows


def tasks_of(env: TaskEnvs) -> list[tuple[str, Task]]:
    """The environments that ``env`` names, each with the name of its suite, or its own.

    Raises:
        RowsError: none, or two of one name.
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: there is no such environment.
    """
    found = list(_named(env))
    if not found:
        raise RowsError("no environment: give at least one")
    names: set[str] = set()
    for _, task in found:
        if task.name in names:
            raise RowsError(
                f"two environments are named {task.name!r}; a row chooses its own by the name, so give it "
                "once, or rename one: environment.model_copy(update={'name': ...})"
            )
        names.add(task.name)
    return found


def write_parquet(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> int:
    """Write rows for ``data.train_files`` or ``data.val_files``. Returns how many there were.

    The file is there only once it is complete.

    Raises:
        RowsError: as ``check_rows``, or the path has an ending by which verl wouldn't know the format.
        MissingPackageError: pyarrow isn't installed; the message has the line that installs it.
        OSError: it can't be written.
    """
    place = Path(path)
    if place.suffix != ".parquet":
        raise RowsError(f"{place}: verl tells a file's format by its ending; call it {place.stem}.parquet")
    check_rows(rows)
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise MissingPackageError(f"pyarrow isn't installed; run: {_INSTALL}") from error
    table = pyarrow.Table.from_pylist([dict(row) for row in rows])
    part = place.with_name(f"{place.name}.part")
    try:
        parquet.write_table(table, part)
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)
    return len(rows)


def check_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Look at rows as verl and the graders will.

    Raises:
        RowsError: there are none, or the first that can't be trained on.
    """
    columns: set[str] | None = None
    for number, row in enumerate(rows):
        for problem in _problems(row):
            raise RowsError(f"row {number}: {problem}")
        if columns is not None and columns != set(row):
            odd = ", ".join(sorted(columns ^ set(row)))
            raise RowsError(f"row {number}: every row needs the same columns, and not all have {odd}")
        columns = set(row)
    if columns is None:
        raise RowsError("there are no rows")


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    from .judge import label_of

    for name in _VERLS:
        if name in row:
            yield f"column {name!r} is one that verl itself adds; rename it"
    source, model, extra = row.get("data_source"), row.get("reward_model"), row.get("extra_info")
    if not isinstance(source, str) or not source:
        yield f"data_source is {source!r:.80}, not a name such as deepgym/easy"
    truth = model.get("ground_truth") if isinstance(model, Mapping) else None
    if truth is None:
        yield "verl reads reward_model['ground_truth']; put the environment's name there"
    if label_of(extra, truth, source) is None:
        yield "extra_info['env'] doesn't name the environment"
    if "agent_name" in row and (not isinstance(row["agent_name"], str) or not row["agent_name"]):
        yield f"agent_name is {row['agent_name']!r:.80}, not an agent loop's name; leave the column out"
    yield from _prompt_problems(row.get("prompt"))


def _prompt_problems(prompt: object) -> Iterator[str]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, str):
        yield f"the prompt is {prompt!r:.80}, not messages: [{{'role': 'user', 'content': ...}}]"
    elif not all(isinstance(each, Mapping) and each.get("role") and "content" in each for each in prompt):
        yield "a message of the prompt has no role or no content"
    elif not prompt or not str(prompt[-1]["content"]).strip():
        yield "the prompt is empty"


def _named(env: Any) -> Iterator[tuple[str, Task]]:
    if isinstance(env, Suite):
        yield from ((env.name, task) for task in env)
    elif isinstance(env, (Environment, MultiTurnEnvironment)):
        yield env.name, env
    elif isinstance(env, (str, os.PathLike)):
        text = os.fspath(env)
        is_suite = text in list_suites() or text.endswith(_SUITES)
        yield from _named(load_suite(env) if is_suite else load_task(env))
    elif isinstance(env, Iterable):
        for one in env:
            yield from _named(one)
    else:
        raise RowsError(f"{env!r:.80} is no environment, suite, name or folder, nor several of these")


def _loop(task: Task, asked: str | None) -> str | None:
    right = _AGENT if isinstance(task, MultiTurnEnvironment) else _SINGLE
    if asked in (_SINGLE, _AGENT) and asked != right:
        raise RowsError(f"environment {task.name!r} needs the agent loop {right}, not {asked}")
    return right if asked == AUTO else asked


def _said(role: str, content: str | None) -> list[dict[str, str]]:
    return [] if content is None else [{"role": role, "content": content}]
