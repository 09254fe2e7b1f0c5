"""Whatever breaks on our side, in whatever phase of a run: what the run then is, and that no other run is
touched. See ``table.py``.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from .cancellation import cancel_batches, close_batches
from .cells import PHASES, QUOTA
from .injector import Injector, fill_cells, storm
from .laws import LAWS_OF_A_RUN, Ledger
from .parents import end_parents
from .processes import left_behind, leftovers
from .table import CELLS, of

pytestmark = pytest.mark.local_sandbox

_PAIRS = list(dict.fromkeys((cell.part, cell.phase) for cell in CELLS))


_STORMY = [cell for cell in CELLS if cell.stormy]


@pytest.fixture
def ledger(injector: Injector, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Counts what the test strikes and looks at; nothing of it may be left once the client is closed."""
    injector.ledger = made = Ledger(where=request.node.name)
    gc.collect()
    before = leftovers()
    logging.disable(logging.CRITICAL)
    yield made
    injector.client.close()
    logging.disable(logging.NOTSET)
    left = left_behind(leftovers, before)
    made.law(not left, "nothing is left behind", left)
    request.node.user_properties += [("struck", dict(made.struck)), ("laws", (made.checks, len(made.broken)))]
    assert not made.broken, "\n".join(made.broken[:20])


@pytest.mark.parametrize(("part", "phase"), _PAIRS, ids=[f"{part}-{phase}" for part, phase in _PAIRS])
def test_a_fault_does_what_its_row_says_and_touches_no_sibling(
    injector: Injector, ledger: Ledger, part: str, phase: str
) -> None:
    struck = fill_cells(injector, of(part, phase))
    assert struck >= QUOTA, f"struck {struck} times"


@pytest.mark.parametrize(("seed", "rate"), [(1, 0.1), (2, 0.3)])
def test_in_a_batch_of_a_thousand_every_fault_strikes_its_own_run_alone(
    injector: Injector, ledger: Ledger, seed: int, rate: float
) -> None:
    storm(injector, _STORMY, 1000, rate, seed)
    assert ledger.struck.total() >= 1000 * rate / 2


@pytest.mark.parametrize("phase", PHASES)
def test_a_cancelled_batch_gives_only_right_results_and_breaks_nothing(
    injector: Injector, ledger: Ledger, phase: str
) -> None:
    cancel_batches(injector, phase)
    close_batches(injector, phase)
    assert ledger.struck[f"cancellation x {phase}"] >= QUOTA


def test_the_table_is_large_enough() -> None:
    names = {cell.name for cell in CELLS}
    assert len(names) * QUOTA >= 2000
    # Each strike is in a batch whose every run is looked at by the laws about runs.
    assert len(names) * QUOTA * LAWS_OF_A_RUN >= 10_000


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "ends",
    [("kill",) * 25 + ("interrupt",) * 2, ("term", "exit") * 13 + ("interrupt",) * 2],
    ids=["SIGKILL", "SIGTERM"],
)
def test_a_process_that_ends_in_a_batch_leaves_nothing_and_said_nothing_wrong(
    ledger: Ledger, phase: str, ends: tuple[str, ...]
) -> None:
    end_parents(ledger, phase, ends)
    assert ledger.struck[f"parent x {phase}"] >= QUOTA / 2
