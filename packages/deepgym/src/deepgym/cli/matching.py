"""Which row of a file answers which task of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepgym.cli.outcome import UsageError

if TYPE_CHECKING:
    from deepgym.cli.answers import Answer
    from deepgym.environments import Suite

__all__ = ["in_order"]

#: Suite names that published samples use, whatever the suite's file is called here.
_SUITES = ("humaneval", "mbpp")


def in_order(tasks: Suite, rows: Sequence[Answer]) -> list[str]:
    """The code for each task, from rows that name their task or stand in the suite's order.

    Raises:
        UsageError: a task has no row or two, or a row has no task.
    """
    if not any(row.env for row in rows):
        if len(rows) != len(tasks):
            raise UsageError(f"{len(rows)} rows without 'env' for the {len(tasks)} tasks of {tasks.name}")
        return [row.code for row in rows]
    by_name = _names(tasks)
    codes: dict[str, str] = {}
    for row in rows:
        name = by_name.get((row.env or "").casefold())
        if name is None:
            raise UsageError(f"{row.label}: no task {row.env!r} in {tasks.name}")
        if name in codes:
            raise UsageError(f"{row.label}: a second answer to {name}; `deepgym batch` takes several")
        codes[name] = row.code
    missing = [task.name for task in tasks if task.name not in codes]
    if missing:
        raise UsageError(f"no answer to {len(missing)} of {len(tasks)} tasks: {', '.join(missing[:5])}")
    return [codes[task.name] for task in tasks]


def _names(tasks: Suite) -> dict[str, str]:
    """Each task's name by all that a row may call it: the name, its number, or another suite's number."""
    names = {task.name.casefold(): task.name for task in tasks}
    numbers = {task.name.rpartition("/")[2].casefold(): task.name for task in tasks}
    if len(numbers) < len(tasks):
        return names
    others = {f"{suite}/{number}": name for suite in _SUITES for number, name in numbers.items()}
    return {**others, **numbers, **names}
