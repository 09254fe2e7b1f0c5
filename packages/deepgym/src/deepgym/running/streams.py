"""Results as they come: which run is over, and which may be handed out in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deepgym.contract.evidence import Phase
from deepgym.models import RunResult

__all__ = ["Indexes", "Ordered"]


class Indexes:
    """An observer that passes on which runs are over."""

    def __init__(self, put: Callable[[int], object]) -> None:
        self._put = put

    def on_phase(self, index: int, phase: Phase) -> None:
        pass

    def on_result(self, index: int, result: RunResult) -> None:
        self._put(index)


class Ordered:
    """Holds indexes back until all before them are there."""

    def __init__(self) -> None:
        self._next = 0
        self._held: set[int] = set()

    def take(self, index: int) -> Iterable[int]:
        self._held.add(index)
        while self._next in self._held:
            self._held.remove(self._next)
            yield self._next
            self._next += 1
