"""Whatever breaks on our side, in whatever phase of an episode: what the episode then is, and that nothing
else is touched. See ``episode_cells``.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator

import anyio
import pytest

from deepgym import AsyncDeepGym

from .cells import Cell
from .episode_agents import DOINGS
from .episode_cells import CELLS, JUDGING, STAGES, of
from .episode_judging import judge_episodes
from .episode_seams import has_groups, recording
from .episode_stops import PLACES, cancel_episodes, close_client, end_parent
from .episodes import Bench, together
from .injector import Injector
from .laws import Ledger
from .processes import left_behind, leftovers

pytestmark = pytest.mark.local_sandbox

_PAIRS = list(dict.fromkeys((cell.part, cell.phase) for cell in CELLS))


def _mounts() -> set[str]:
    with open("/proc/self/mountinfo") as mounts:
        return {f"mount {line.split()[4]}" for line in mounts}


@pytest.fixture
def ledger(local_sandbox: None, own_slots: str, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Counts what the test strikes and looks at; nothing of it may be left once its client is closed."""
    made = Ledger(where=request.node.name)
    gc.collect()
    before = leftovers() | _mounts()
    logging.disable(logging.CRITICAL)
    yield made
    logging.disable(logging.NOTSET)
    left = left_behind(lambda: leftovers() | _mounts(), before)
    made.law(not left, "nothing is left behind", left)
    request.node.user_properties += [("struck", dict(made.struck)), ("laws", (made.checks, len(made.broken)))]
    assert not made.broken, "\n".join(made.broken[:20])


@pytest.mark.parametrize(("part", "phase"), _PAIRS, ids=[f"{part}-{phase}" for part, phase in _PAIRS])
def test_a_fault_does_what_its_row_says_and_touches_no_neighbour(
    ledger: Ledger, part: str, phase: str
) -> None:
    cells = [cell for cell in of(part, phase) if has_groups() or not cell.grouped]
    if not cells:
        pytest.skip("no control group can be made here")

    async def main() -> int:
        async with AsyncDeepGym(slots=2) as client:
            bench = Bench(client, ledger)
            try:
                with recording():
                    return await bench.fill(cells)
            finally:
                await bench.close()

    assert anyio.run(main) == sum(sum(cell.strikes) for cell in cells)


@pytest.mark.parametrize(
    ("cell", "task"),
    JUDGING,
    ids=[f"{number}-{cell.part}-{cell.phase}" for number, (cell, _) in enumerate(JUDGING)],
)
def test_a_fault_in_the_judging_does_what_it_does_in_a_run(
    injector: Injector, ledger: Ledger, cell: Cell, task: str
) -> None:
    hungry = task.startswith("hungry")
    if hungry and not has_groups():
        pytest.skip("no control group can be made here")

    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            await judge_episodes(injector, client, cell, task)

    injector.ledger = ledger
    anyio.run(main)
    struck = ledger.struck.pop(cell.name)
    ledger.struck[f"judging: {cell.name}"] = struck
    assert struck >= (3 if hungry else 8), f"struck {struck} times"


@pytest.mark.parametrize("name", DOINGS)
def test_whatever_an_agent_does_it_gets_a_verdict(ledger: Ledger, name: str) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            bench = Bench(client, ledger)
            for turns in (0, 1):
                await bench.suffer(DOINGS[name], turns)
            await bench.right()

    anyio.run(main)


@pytest.mark.parametrize(("seed", "rate"), [(1, 0.1), (2, 0.3)])
def test_of_many_episodes_at_once_each_gets_its_own(ledger: Ledger, seed: int, rate: float) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2, max_sessions=6) as client:
            await together(client, ledger, 30, rate, seed)

    anyio.run(main)


def test_the_table_strikes_every_phase() -> None:
    assert {cell.phase for cell in CELLS} == set(STAGES)
    assert sum(sum(cell.strikes) for cell in CELLS) >= 500
    assert all(sum(cell.strikes) >= 3 for cell in CELLS)


@pytest.mark.parametrize(("stage", "point"), PLACES, ids=[f"{stage}-{point}" for stage, point in PLACES])
def test_a_cancelled_episode_gives_no_wrong_result_and_leaves_nothing(
    ledger: Ledger, stage: str, point: str
) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2) as client:
            with recording():
                await cancel_episodes(client, ledger, stage, point, 4)

    anyio.run(main)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_client_that_is_closed_gives_every_episode_back(ledger: Ledger, turn: int) -> None:
    close_client(ledger, turn)


@pytest.mark.parametrize("stage", ["between", "step", "copy"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_process_that_ends_takes_its_sessions_with_it(
    ledger: Ledger, own_slots: str, stage: str, how: signal.Signals
) -> None:
    end_parent(ledger, own_slots, stage, how)
