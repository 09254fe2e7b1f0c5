"""How settings are written: as Hydra's overrides, for a shell, and as a configuration file of verl's."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepgym.environments import list_environments, list_multi_turn_environments
from deepgym.environments.suites import list_suites

from .options import OptionsError

__all__ = ["COMMAND", "config_file", "files", "override", "places", "shell_command"]

COMMAND = "python -m verl.trainer.main_ppo"
_PLAIN = re.compile(r"[A-Za-z_./][\w./:@%-]*", re.ASCII)
#: Hydra or YAML would take them for something else than text.
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "inf", "nan", "y", "n"})
_HEAD = f"""\
# {COMMAND} --config-path THIS_FOLDER --config-name THIS_FILE
hydra:
  searchpath: [pkg://verl.trainer.config]
defaults: [ppo_trainer, _self_]
"""


def override(key: str, value: Any) -> str:
    """``key=value`` for Hydra, not quoted for a shell.

    Raises:
        OptionsError: a text has ``${`` in it, which Hydra can't be kept from resolving.
    """
    return f"{key}={_hydra(value)}"


def shell_command(overrides: Sequence[str]) -> str:
    """The command with these overrides, quoted for a shell, a line for each."""
    return " \\\n    ".join([COMMAND, *map(shlex.quote, overrides)])


def config_file(settings: Mapping[str, Any]) -> str:
    """Settings as a YAML file that extends verl's configuration.

    Raises:
        OptionsError: as ``override``.
    """
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *above, last = key.lstrip("+").split(".")
        place = tree
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    return _HEAD + "".join(_yaml(tree, 0))


def files(given: Sequence[str] | str | None) -> list[str] | None:
    """Paths from the root, for verl's processes may have another folder. ``hdfs://...`` stays as it is."""
    several = [given] if isinstance(given, (str, os.PathLike)) else given
    return None if several is None else [_absolute(os.fspath(each)) for each in several]


def places(env: Any) -> list[str]:
    """Environments as a configuration names them: names as they are, paths from the root.

    Raises:
        OptionsError: one is neither a name nor a path.
    """
    if isinstance(env, (str, os.PathLike)):
        text = os.fspath(env)
        named = text in {*list_suites(), *list_environments(), *list_multi_turn_environments()}
        return [text if named or not Path(text).exists() else _absolute(text)]
    if isinstance(env, (list, tuple)):
        return [place for one in env for place in places(one)]
    raise OptionsError(
        f"a configuration holds names and paths, not {type(env).__name__}: write the environment to a "
        "folder, or have a file of yours say compute_score = make_verl_compute_score(...)"
    )


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _hydra(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_hydra, value))}]"
    if not isinstance(value, str):
        return str(value)
    if _plain(value):
        return value
    # A backslash is one unless a quote follows it.
    text = re.sub(r"(\\*)'", r"\1\1\\'", value)
    end = len(text) - len(text.rstrip("\\"))
    return f"'{text}{chr(92) * end}'"


def _yaml(tree: Mapping[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in tree.items():
        begin = f"{'  ' * depth}{key}:"
        if isinstance(value, dict):
            lines += [f"{begin}\n", *_yaml(value, depth + 1)]
        else:
            lines.append(f"{begin} {_flat(value)}\n")
    return lines


def _flat(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    return value if isinstance(value, str) and _plain(value) else json.dumps(value)


def _plain(text: str) -> bool:
    if "${" in text:
        raise OptionsError(f"{text!r}: Hydra would take ${{...}} for a reference; rename it")
    return bool(_PLAIN.fullmatch(text)) and text.lower() not in _WORDS
