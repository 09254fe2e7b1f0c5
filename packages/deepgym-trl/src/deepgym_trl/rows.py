"""Which environment a row of the trainer's batch is for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deepgym.environments import Environment, load_environment
from deepgym.environments.suites import Suite
from deepgym.exceptions import UnknownNameError

if TYPE_CHECKING:
    EnvLike: TypeAlias = Environment | str | os.PathLike[str]
    Envs: TypeAlias = EnvLike | Suite | Sequence[EnvLike]

__all__ = ["EnvironmentColumn"]


class EnvironmentColumn:
    """Environments for rows: one for all of them, or chosen row by row by the name in ``column``.

    ``envs`` is one environment (or its name, or the path of its folder); several, or a suite; or ``None`` for
    every environment that ``load_environment`` knows.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment, or it isn't valid.
        ValueError: ``envs`` is empty, or two of them share a name.
    """

    def __init__(self, envs: Envs | None, column: str = "env_id") -> None:
        self.column = column
        self.single: Environment | None = None
        self.known: dict[str, Environment] | None = None
        if envs is None:
            return
        if isinstance(envs, (Environment, str, os.PathLike)):
            self.single = _loaded(envs)
            return
        loaded = [_loaded(env) for env in envs]
        self.known = {env.name: env for env in loaded}
        if not loaded:
            raise ValueError("no environments: give at least one")
        if len(self.known) < len(loaded):
            twice = sorted(
                {env.name for env in loaded if sum(other.name == env.name for other in loaded) > 1}
            )
            raise ValueError(
                f"environments need names of their own to be chosen by; several are {twice[0]!r}"
            )

    @property
    def declared(self) -> list[Environment]:
        """The environments that are known before any row is."""
        return [self.single] if self.single is not None else list((self.known or {}).values())

    def choose(self, rows: int, columns: Mapping[str, Any]) -> list[Environment]:
        """The environment of each of ``rows`` rows.

        Raises:
            ValueError: the column is missing, hasn't one value for each row, or a value is no name.
            UnknownNameError: no environment has the name; the message has the row and the closest names.
        """
        if self.single is not None:
            return [self.single] * rows
        if self.column not in columns:
            raise ValueError(self._missing(columns))
        names = columns[self.column]
        if len(names) != rows:
            raise ValueError(f"column {self.column!r} has {len(names)} values for {rows} completions")
        found: dict[str, Environment] = {}
        for row, name in enumerate(names):
            if not (isinstance(name, str) and name in found):
                found[name] = self._named(row, name)
        return [found[name] for name in names]

    def _named(self, row: int, name: object) -> Environment:
        if not isinstance(name, str) or not name:
            raise ValueError(
                f"row {row}: column {self.column!r} must name an environment, got {name!r:.80}; "
                "`deepgym envs` lists the names"
            )
        try:
            if self.known is None:
                return load_environment(name)
            if name not in self.known:
                raise UnknownNameError.among("environment", name, self.known)
            return self.known[name]
        except UnknownNameError as error:
            raise UnknownNameError(f"row {row}, column {self.column!r}: {error}", name) from None

    def _missing(self, columns: Mapping[str, Any]) -> str:
        there = ", ".join(sorted(columns)) or "none"
        return (
            f"the dataset has no column {self.column!r}, which names each row's environment (its columns: "
            f"{there}). Add it (deepgym_trl.build_dataset does), give env_column= the name it has, or give "
            "the reward function one environment for all rows: make_trl_reward_fn('coin_change')"
        )


def _loaded(env: object) -> Environment:
    if isinstance(env, Environment):
        return env
    if isinstance(env, (str, os.PathLike)):
        return load_environment(env)
    raise TypeError(f"an environment is an Environment, its name or its folder, not {type(env).__name__}")
