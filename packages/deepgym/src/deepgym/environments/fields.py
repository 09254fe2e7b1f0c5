"""Fields of a data set's row, typed or refused by name."""

from __future__ import annotations

import ast
from typing import Any

from deepgym.environments.plain import parsed
from deepgym.exceptions import InvalidEnvironmentError

__all__ = ["strings", "task_number", "text", "tree"]


def text(row: dict[str, Any], where: str, *names: str, default: str | None = None) -> str:
    """The first of ``names`` that the row has, as text.

    Raises:
        InvalidEnvironmentError: none is there (and there is no default), or it isn't text.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            return value
        if value is not None:
            raise InvalidEnvironmentError(f"{where}: {name} must be text, got {value!r:.80}")
    if default is None:
        raise InvalidEnvironmentError(f"{where}: {' or '.join(names)} is missing; add it as text")
    return default


def strings(row: dict[str, Any], where: str, name: str) -> list[str]:
    """The row's list of strings ``name``; empty if it isn't there.

    Raises:
        InvalidEnvironmentError: something else than a list of strings.
    """
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidEnvironmentError(f"{where}: {name} must be a list of strings, got {value!r:.80}")
    return value


def tree(source: str, where: str, name: str) -> ast.Module:
    """The syntax tree of a field's code.

    Raises:
        InvalidEnvironmentError: it isn't Python.
    """
    try:
        return parsed(source)
    except (SyntaxError, ValueError) as error:
        raise InvalidEnvironmentError(f"{where}: {name} isn't valid Python: {error}") from None


def task_number(row: dict[str, Any], where: str) -> str:
    """The last part of ``task_id``: ``12`` of ``12``, ``"12"`` and ``"HumanEval/12"``.

    Raises:
        InvalidEnvironmentError: no ``task_id``, or one with characters that a name can't have.
    """
    value = row.get("task_id")
    number = (
        str(value).rsplit("/", 1)[-1] if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    )
    if not number or not all(char.isalnum() or char in "._+-" for char in number):
        raise InvalidEnvironmentError(f"{where}: task_id must be a number or a short name, got {value!r:.80}")
    return number
