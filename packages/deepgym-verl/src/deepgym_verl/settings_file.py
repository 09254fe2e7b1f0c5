"""A run's settings, read from a configuration of verl's or from the script that starts it.

=================  ===============================================================================
``.yaml, .yml``    a configuration, whole or in part, or Hydra's list of overrides
anything else      ``key.of.it=value`` wherever it stands: overrides one a line, or a shell script,
                   whose variables are put in where the script itself sets them
=================  ===============================================================================
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from deepgym.exceptions import DeepGymError, MissingPackageError

__all__ = ["Settings", "SettingsError"]

_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_]\w*(?:\.\w+)+)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: verl's own of what is looked at.
_DEFAULTS: dict[str, Any] = {
    "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
    "actor_rollout_ref.rollout.agent.default_agent_loop": "single_turn_agent",
    "actor_rollout_ref.rollout.multi_turn.max_tool_response_length": 256,
    "algorithm.adv_estimator": "gae",
    "algorithm.filter_groups.enable": False,
    "reward.reward_manager.name": "naive",
    "trainer.use_v1": True,
    "trainer.v1.sampler.sync_refill_failed_groups": False,
    "trainer.v1.trainer_mode": "sync",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 8,
}


class SettingsError(DeepGymError, ValueError):
    """A file that can't be read as settings; the message says why."""


class Settings:
    """What a file says, and verl's own defaults for what is looked at here."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree

    @classmethod
    def read(cls, path: Path) -> Settings:
        """The settings in a file.

        Raises:
            SettingsError: it can't be read, or has no settings of verl's.
            MissingPackageError: there is no PyYAML here.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"it can't be read: {error}") from error
        if path.suffix in (".yaml", ".yml"):
            found = _yaml(text)
            tree = _tree(map(str, found)) if isinstance(found, list) else found
        else:
            tree = _tree(_words(text))
        if not isinstance(tree, dict) or not tree:
            raise SettingsError("it has no settings: no mapping, and no key.of.it=value")
        return cls(tree)

    def get(self, key: str) -> Any:
        """The value at ``key``, dots between its parts; verl's default, or ``None``."""
        place: Any = self._tree
        for part in key.split("."):
            if not isinstance(place, Mapping) or part not in place:
                return _DEFAULTS.get(key)
            place = place[part]
        return place

    def has(self, key: str) -> bool:
        """Whether the file itself has something there."""
        above, _, last = key.rpartition(".")
        place = self.get(above)
        return isinstance(place, Mapping) and last in place


def _yaml(text: str) -> Any:
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise MissingPackageError("reading it needs PyYAML; verl brings it: pip install pyyaml") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"it is no YAML: {' '.join(str(error).split())}") from error


def _words(text: str) -> Iterator[str]:
    """The words of a shell script, with what it has set put in."""
    variables: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quote that goes on in the next line
            words = line.split()
        if _OVERRIDE.fullmatch(line.strip()) and not any(map(_OVERRIDE.fullmatch, words[1:])):
            words = [line.strip()]  # not a shell's, so its spaces are the value's
        for word in words:
            whole = string.Template(word).safe_substitute(variables)
            named = _VARIABLE.fullmatch(whole)
            if named is not None:
                variables[named[1]] = named[2]
            yield whole


def _tree(words: Iterable[str]) -> dict[str, Any]:
    """Of the words that are overrides; what stands for something unknown is left out."""
    tree: dict[str, Any] = {}
    for word in words:
        found = _OVERRIDE.fullmatch(word)
        if found is None or "$" in found[2]:
            continue
        *above, last = found[1].split(".")
        place = tree
        for part in above:
            inner = place.get(part)
            if not isinstance(inner, dict):
                inner = place[part] = {}
            place = inner
        place[last] = _value(found[2])
    return tree


def _value(text: str) -> Any:
    """As Hydra reads it, near enough: a flow of YAML's, or the text itself."""
    try:
        return _yaml(text)
    except SettingsError:
        return text
