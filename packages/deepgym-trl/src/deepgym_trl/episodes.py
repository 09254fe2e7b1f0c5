"""Episodes in sandboxes for TRL's ``environment_factory``: each rollout of GRPO is an agent with tools.

::

    factory = make_environment_factory("fix_the_program")
    GRPOTrainer(..., environment_factory=factory, reward_funcs=[factory.reward_fn()],
                train_dataset=build_dataset("fix_the_program"))

Touches no private name of TRL. It relies on what TRL 1.6 and later do with an environment: list its public
methods (1.6 of the instance, later ones of the class), call ``reset(**row)`` before a rollout and the methods
as tools in it, reuse the instance (always, whatever the batch), and give the instances to reward functions as
``environments``, which AsyncGRPO doesn't: it only asks ``get_reward``.
"""

from __future__ import annotations

import gc
import logging
import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deepgym.client import DeepGym
from deepgym.environments.tools import TOOL_NAMES

from .episodes_calls import Closer, Patience, Pending
from .episodes_environment import EpisodeEnvironment, class_for
from .episodes_play import Episode
from .episodes_reward import EpisodeReward, episode_reward
from .episodes_rows import EpisodeColumn
from .versions import installed

if TYPE_CHECKING:
    from .episodes_rows import EpisodeEnvs

__all__ = ["EpisodeFactory", "EpisodeReward", "episode_reward", "make_environment_factory"]

#: Sessions at once of a factory's own client. One that is open uses memory, and a core only in a step.
MAX_SESSIONS = 512
PATIENCE = 120.0
_CLOSING = 20.0
_OF_THIS_PROCESS = ("_made", "_closing", "_hangs")

logger = logging.getLogger(__name__)


class EpisodeFactory:
    """Makes the environments of one trainer; TRL calls it without arguments.

    Args:
        env: The environment of every row, or its name or folder; several, of which a row names one in
            ``env_column``; or ``None``: a row may name any environment.
        env_column: The dataset's column with the environment's name.
        dg: The client; by default one with the local sandbox, for this factory alone, and a new one after a
            call that hung.
        max_sessions: Room of its own client. A batch has all its rollouts open at once.
        patience: Seconds beyond its own limits after which an opening, a step or a grading hangs on our side,
            so that the rollout has no verdict (three times as much while others end: it may be waiting for
            its turn); 5 for openings and steps once one has hung, until one has ended again. Keep it above
            the 30 s after which the local sandbox calls a silent session dead, which is the policy's 0.
        owns_reward: Give the environments a ``get_reward``, for AsyncGRPO. GRPO asks it of one after another;
            there, use ``reward_fn`` instead. Not both: the reward would count twice.

    The policy is shown the tools of ``env``; of several environments the union, and one that lacks a tool
    says so when it is called. (With a dict of factories, one for each environment, TRL 1.8 and later show
    each row its own: ``{"refactor": make_environment_factory("refactor"), ...}`` and a column
    ``environment``.)

    A rollout is what its sandbox was left as: a call whose output TRL drops, because it would exceed
    ``max_completion_length``, has run all the same. A call that TRL itself refuses (a name that is no tool,
    arguments that are no mapping) never comes here, and costs no step.

    Pickles without what it has open. ``close`` ends that, as do the end of the process and the collector.

    Raises:
        UnknownNameError, InvalidEnvironmentError: there is no such environment, or it isn't valid.
        ValueError: ``env`` is empty or two have one name; ``max_sessions`` of a client that was given;
            ``owns_reward`` with a TRL before 1.8, which would show ``get_reward`` to the policy as a tool.
    """

    def __init__(
        self,
        env: EpisodeEnvs | None = None,
        *,
        env_column: str = "env_id",
        dg: DeepGym | None = None,
        max_sessions: int | None = None,
        patience: float = PATIENCE,
        owns_reward: bool = False,
    ) -> None:
        if dg is not None and max_sessions is not None:
            raise ValueError("max_sessions is the client's own: DeepGym(max_sessions=...)")
        if owns_reward and (found := installed()) is not None and _numbers(found) < (1, 8):
            raise ValueError(f"owns_reward needs TRL 1.8, this is {found}; use reward_fn() instead")
        self.rows = EpisodeColumn(env, env_column)
        self._room = (max_sessions or MAX_SESSIONS) if dg is None else None
        self.dg = DeepGym(max_sessions=self._room) if dg is None else dg
        self.patience = Patience(patience)
        self.owns_reward = owns_reward
        self._forget()

    def _forget(self) -> None:
        self._made: weakref.WeakSet[EpisodeEnvironment] = weakref.WeakSet()
        self._closing: Closer | None = None
        self._hangs = self.patience.hangs

    @property
    def env_column(self) -> str:
        """The column that names a row's environment."""
        return self.rows.column

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that the policy is shown."""
        known = [env.tools for env in self.rows.declared] or [TOOL_NAMES]
        return tuple(name for name in TOOL_NAMES if any(name in names for names in known))

    def __call__(self) -> Any:
        """An environment for one rollout after another. Its sandbox is opened by ``reset``.

        Raises:
            ValueError: the client hasn't room for as many at once.
        """
        room = getattr(self.dg.provider, "max_sessions", None)
        if room is not None and len(self._made) >= room:
            gc.collect()
            if len(self._made) >= room:
                raise ValueError(
                    f"the client has room for max_sessions={room} episodes at once, and the trainer wants "
                    "more: each rollout of a generation batch is one. Give make_environment_factory (with "
                    "dg=, the client) max_sessions= the batch's size, or make the batch smaller"
                )
        made = class_for(self.tools, self.owns_reward)(self)
        self._made.add(made)
        return made

    def reward_fn(self, **options: Any) -> EpisodeReward:
        """The reward function for ``reward_funcs``; see ``EpisodeReward`` for its arguments and errors."""
        return EpisodeReward(rows=self.rows, **options)

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise what ``reset`` raises for a row of the dataset.

        Raises:
            ValueError, UnknownNameError, InvalidEnvironmentError: it names no environment for episodes.
        """
        self.rows.choose(row)

    def begin(self, row: Mapping[str, Any]) -> Episode:
        """A new episode for a row; raises as ``check_row``, and never for the infrastructure."""
        if self._closing is None or self._closing.pid != os.getpid():
            self._closing = Closer()
        if self._room is not None and self.patience.hangs != self._hangs:
            # Whatever hangs of the old one is left alone: other episodes may still go on there.
            self._hangs = self.patience.hangs
            self.dg = DeepGym(max_sessions=self._room)
        return Episode(self.dg, self.rows.choose(row), self._closing, self.patience)

    def close(self) -> None:
        """End all its episodes, and its own client; one that was given stays open. Never raises; it can be
        used again.
        """
        for made in list(self._made):
            made._leave()
        if self._closing is not None:
            self._closing.finish(_CLOSING)
            self._closing = None
        if self._room is not None:
            try:
                Pending(self.dg.close).result(_CLOSING, f"it wasn't closed after {_CLOSING:g} s")
            except Exception:
                logger.warning("the client of an environment factory wasn't closed cleanly", exc_info=True)

    def __enter__(self) -> EpisodeFactory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def make_environment_factory(env: EpisodeEnvs | None = None, **options: Any) -> EpisodeFactory:
    """GRPOTrainer's ``environment_factory``; arguments and errors are those of ``EpisodeFactory``."""
    return EpisodeFactory(env, **options)
