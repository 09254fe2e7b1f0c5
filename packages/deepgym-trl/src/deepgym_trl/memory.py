"""One judgement of a batch, whether the trainer asks for it first or another reward function of its list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["Memory", "Rewards"]

Rewards: TypeAlias = list[float | None]


class Memory:
    """The rewards of the last batch. A batch is known by its list object, which a trainer hands to all its
    reward functions; that is held here, so that no later one can have its identity.

    Usable from several threads, of which each may be at another batch; pickles without what it holds.
    """

    def __init__(self) -> None:
        self._last: tuple[Sequence[Any], list[Any], Rewards, bool] | None = None

    def keep(self, completions: Sequence[Any], rewards: Rewards, *, given: bool) -> Rewards:
        """Keep the rewards; ``given``: the trainer has them. Returns a copy."""
        self._last = (completions, list(completions), rewards, given)
        return list(rewards)

    def known(self, completions: Sequence[Any]) -> Rewards | None:
        """The rewards of this batch, if it is the last one."""
        last = self._last
        if last is None or last[0] is not completions or last[1] != list(completions):
            return None
        return list(last[2])

    def owed(self, completions: Sequence[Any]) -> Rewards | None:
        """The same if the trainer hasn't got them yet; it counts as having them from here on."""
        last = self._last
        if last is None or last[3] or (rewards := self.known(completions)) is None:
            return None
        return self.keep(completions, rewards, given=True)

    def __getstate__(self) -> dict[str, Any]:
        return {"_last": None}
