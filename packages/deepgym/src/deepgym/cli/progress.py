"""Progress of a batch: a bar on a terminal, one plain line at the end otherwise. On standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepgym.contract.evidence import Phase
    from deepgym.models import RunResult

__all__ = ["Tally", "progress"]


class Tally:
    """Observer that counts results as they come in."""

    def __init__(self) -> None:
        self.done = 0
        self.passed = 0
        self.no_verdict = 0

    def on_phase(self, index: int, phase: Phase) -> None:
        """Phases aren't shown."""

    def on_result(self, index: int, result: RunResult) -> None:
        """Count one finished run."""
        self.done += 1
        self.passed += result.passed
        self.no_verdict += not result.has_verdict

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.no_verdict} no verdict"


class _Bar(Tally):
    def __init__(self, bar: Any, task: Any) -> None:
        super().__init__()
        self._bar, self._task = bar, task

    def on_result(self, index: int, result: RunResult) -> None:
        """Count one finished run and move the bar."""
        super().on_result(index, result)
        self._bar.update(self._task, completed=self.done, tally=str(self))


@contextmanager
def progress(label: str, total: int) -> Iterator[Tally]:
    """The observer to hand to a batch of ``total`` runs; shows them until the block ends, however it ends."""
    if sys.stderr.isatty():
        with _bar() as bar:
            yield _Bar(bar, bar.add_task(label, total=total, tally=""))
        return
    tally, start = Tally(), time.monotonic()
    try:
        yield tally
    finally:
        took = time.monotonic() - start
        print(f"{label}: {tally.done} of {total} graded in {took:.1f} s, {tally}", file=sys.stderr)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[tally]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
