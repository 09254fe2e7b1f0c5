"""Observers see phases and results, and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from deepgym.contract.evidence import Phase
from deepgym.models import RunResult

__all__ = ["Observer", "Observers"]

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """What may watch a batch. Called on the event loop of the batch: keep it short."""

    def on_phase(self, index: int, phase: Phase) -> None:
        """Run ``index`` reached ``phase``."""

    def on_result(self, index: int, result: RunResult) -> None:
        """Run ``index`` is over."""


class Observers:
    """Several observers as one. What one raises is logged: it can't change a run."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def on_phase(self, index: int, phase: Phase) -> None:
        for observer in self._observers:
            try:
                observer.on_phase(index, phase)
            except Exception:  # noqa: BLE001 - a watcher's failure is not the run's
                _log.warning("observer %r failed", observer, exc_info=True)

    def on_result(self, index: int, result: RunResult) -> None:
        for observer in self._observers:
            try:
                observer.on_result(index, result)
            except Exception:  # noqa: BLE001 - a watcher's failure is not the run's
                _log.warning("observer %r failed", observer, exc_info=True)
