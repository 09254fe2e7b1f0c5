"""What this package's reward functions share: a name, how long a call takes, and one judgement of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepgym.integrations.judging import BEYOND

from .memory import Memory, Rewards
from .metrics import LogMetric
from .surroundings import examine
from .trainer_of import trainer_of
from .versions import require_masking

__all__ = ["DDP_TIMEOUT", "BatchReward"]

#: What TRL waits for another rank by default, in seconds.
DDP_TIMEOUT = 1800.0


class BatchReward:
    """The base of ``TRLReward`` and ``EpisodeReward``, which has their ``__call__``.

    Raises:
        ValueError: the deadline doesn't fit under ``ddp_timeout``.
        UnsupportedTRLError: the installed TRL would train on a run without a verdict as on a 0.
    """

    __name__: str
    rows: Any

    def __init__(self, *, name: str, deadline: float | None, ddp_timeout: float, masked: bool) -> None:
        if masked:
            require_masking()
        self.__name__ = name
        self.deadline = (ddp_timeout - BEYOND) / 2 if deadline is None else deadline
        if self.deadline <= 0 or self.longest > ddp_timeout:
            raise ValueError(
                f"deadline={self.deadline:g} s doesn't fit under ddp_timeout={ddp_timeout:g} s: a call may "
                f"take {BEYOND:g} s longer than its deadline. Lower deadline, or raise ddp_timeout here and "
                "in the trainer's config"
            )
        self._looked = False
        self._memory = Memory()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **others: Any) -> Rewards:
        """The reward of each completion; ``None`` without a verdict."""
        raise NotImplementedError

    @property
    def env_column(self) -> str:
        """The column that names a row's environment."""
        column: str = self.rows.column
        return column

    @property
    def longest(self) -> float:
        """Seconds that a call takes at most."""
        return self.deadline + BEYOND

    def rewards_for(self, prompts: Sequence[Any], completions: Sequence[Any], **others: Any) -> Rewards:
        """What a call returns for this very list of completions, judged once whichever comes first.

        For another reward function of the same trainer that wants to know which rows have a verdict.
        """
        known = self._memory.known(completions)
        if known is not None:
            return known
        return self._memory.keep(completions, self(prompts, completions, **others), given=False)

    def _look_at_trainer(self, log_metric: LogMetric | None) -> None:
        """At the first call, what the trainer makes of this function's rewards and of its time."""
        trainer = trainer_of(log_metric)
        if trainer is not None and not self._looked:
            self._looked = True
            examine(trainer, self.longest)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looked": False}
