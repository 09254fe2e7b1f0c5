"""``deepgym_axolotl.reward``: the reward function of a run's YAML file.

Configured by the plugin's ``deepgym:`` section; without the plugin each row names its environment in the
column ``env_id``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepgym.extract import completion_text
from deepgym.integrations.reward import MaskedRate

from .groups import group_mean
from .modes import refuse_trainer
from .settings import ConfigError, DeepGymSection, Setup

if TYPE_CHECKING:
    from deepgym_trl.dapo import DapoReward
    from deepgym_trl.rewards import TRLReward
    from deepgym_trl.rows import Envs

__all__ = ["AxolotlReward", "grader", "reward"]

Rewards = list["float | None"]


class AxolotlReward:
    """A reward function that finds its configuration at its first call.

    There is one, ``reward``. It pickles as its name, so that Axolotl's reward workers, to which it is sent
    with each batch, keep their own client from batch to batch.
    """

    __name__ = "deepgym"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Any] | None = None,
        **given: Any,
    ) -> Rewards:
        """One reward for each completion: a finite float, or ``None`` where the run has no verdict.

        With ``no_verdict: group_mean`` there is no ``None``; the mean of the judged siblings is in its place.

        Raises:
            ConfigError: the trainer would take ``None`` for 0; or ``group_mean`` isn't given whole groups.
            ValueError, TypeError, UnknownNameError: as ``deepgym_trl.TRLReward``; never for what the
                infrastructure did.
        """
        setup = Setup.current()
        trainer = _trainer(given)
        refuse_trainer(trainer, setup.section)
        judge = _of(setup, given.get("log_metric") is None)[1]
        rewards = judge(prompts=prompts, completions=completions, completion_ids=completion_ids, **given)
        return _final(setup, rewards, prompts, trainer)

    def rewards_for(
        self, completions: Sequence[Any], *, prompts: Sequence[Any] = (), **given: Any
    ) -> Rewards:
        """What a call returns for this list of completions, judged once whichever comes first."""
        setup = Setup.current()
        trainer = _trainer(given)
        refuse_trainer(trainer, setup.section)
        judge = _of(setup, given.get("log_metric") is None)[1]
        rewards = judge.rewards_for(completions=completions, prompts=prompts, **given)
        return _final(setup, rewards, prompts, trainer)

    def check_row(self, row: Mapping[str, Any]) -> None:
        """Raise what a call would raise for a row of the dataset."""
        grader(Setup.current()).check_row(row)

    @property
    def env_column(self) -> str:
        """The column that names a row's environment."""
        return Setup.current().section.env_column

    def close(self) -> None:
        """Close the client. It is opened anew if it is needed again."""
        while _made:
            _made.popitem()[1][0].close()

    def __reduce__(self) -> str:
        return "reward"

    def __repr__(self) -> str:
        return "<deepgym_axolotl.reward>"


reward = AxolotlReward()


def _environments(section: DeepGymSection) -> Envs | None:
    if section.suite is not None:
        from deepgym.environments import load_suite

        return load_suite(section.suite)
    return section.env if section.envs is None else list(section.envs)


#: What was made for each set-up, by whether it is alone; emptied by ``close``.
_made: dict[tuple[Setup, bool], tuple[TRLReward, TRLReward | DapoReward]] = {}


def grader(setup: Setup, alone: bool = False) -> TRLReward:
    """The TRL reward function of a run. ``alone``: in a reward worker, where nothing can be logged, so that
    no callback sees an outage.

    Raises:
        ValueError: the deadline doesn't fit between an environment's limits and the ranks' timeout.
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: an environment can't be loaded.
    """
    return _of(setup, alone)[0]


def _of(setup: Setup, alone: bool) -> tuple[TRLReward, TRLReward | DapoReward]:
    """The grader, and the same with what DAPO adds to it."""
    if (setup, alone) not in _made:
        grades = _grader(setup, alone)
        _made[setup, alone] = (grades, _penalised(grades, setup))
    return _made[setup, alone]


def _grader(setup: Setup, alone: bool) -> TRLReward:
    from deepgym_trl.rewards import TRLReward

    section = setup.section
    return TRLReward(
        _environments(section),
        env_column=section.env_column,
        extract=section.extract or completion_text,
        max_parallel=section.max_parallel,
        deadline=section.deadline,
        ddp_timeout=setup.ddp_timeout,
        observers=(_rate(section),) if alone else (),
        masked=section.no_verdict == "none",
    )


def _penalised(grades: TRLReward, setup: Setup) -> TRLReward | DapoReward:
    if not setup.overlong:
        return grades
    from deepgym_trl.dapo import DapoReward, SoftOverlong

    return DapoReward(grades, SoftOverlong(setup.max_completion_length or 0, setup.overlong), 1.0)


def _rate(section: DeepGymSection) -> MaskedRate:
    return MaskedRate("deepgym_axolotl", block=100, limit=int(100 * section.warn_above))


def _trainer(given: Mapping[str, Any]) -> Any | None:
    from deepgym_trl.trainer_of import trainer_of

    return trainer_of(given.get("log_metric"))


def _final(setup: Setup, rewards: Rewards, prompts: Sequence[Any], trainer: Any | None) -> Rewards:
    if setup.section.no_verdict == "none":
        return rewards
    size = getattr(trainer, "num_generations", None) or setup.num_generations
    if size is None:
        raise ConfigError("deepgym.no_verdict: group_mean needs trl.num_generations")
    model = getattr(trainer, "model", None)
    return list(group_mean(rewards, prompts, size, strict=getattr(model, "training", True)))
