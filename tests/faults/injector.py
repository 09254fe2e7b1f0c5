"""Runs batches in which chosen runs are struck, until a cell has had its share."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deepgym import DeepGym
from deepgym.environments import Environment
from deepgym.running.schedule import ATTEMPTS

from .cells import QUOTA, Cell
from .laws import Expected, Ledger, check_batch
from .scene import Scene
from .tasks import TASKS, WALL, Answer, answers

__all__ = ["Injector", "fill_cells", "storm"]

#: Seconds after which a batch counts as hanging.
_PATIENCE = 120.0
_MOST_BATCHES = 60


class Injector:
    """Knows which answers are to be struck by what, and remembers which strikes hit."""

    def __init__(self, client: DeepGym, ledger: Ledger) -> None:
        self.client, self.ledger = client, ledger
        self.armed: dict[bytes, tuple[Cell, bool]] = {}
        self.attempts: Counter[bytes] = Counter()
        self.hits: Counter[bytes] = Counter()
        self._far = False

    def scene_for(self, text: bytes) -> Scene | None:
        """The scene of the next attempt at ``text``, if the fault is to strike it."""
        self.attempts[text] += 1
        if text not in self.armed:
            return None
        cell, always = self.armed[text]
        if not always and self.attempts[text] > 1:
            return None

        def hit() -> None:
            self.hits[text] += 1
            self.ledger.struck[cell.name] += 1

        return Scene(cell.fault, cell.at, cell.role, cell.fresh, hit)

    def expected(self, answer: Answer) -> Expected:
        """What must become of an answer, by what struck it."""
        text = answer.text.encode()
        hits, tried = self.hits[text], self.attempts[text]
        outcomes = {"none"} if self._far and tried >= ATTEMPTS else set()
        if not hits:
            return Expected(
                text, answer.score, frozenset({"true"} | outcomes), note=f"unstruck, {tried} attempts"
            )
        cell, always = self.armed[text]
        outcomes |= set((cell.always if always else cell.once).split())
        if always and hits < tried:
            outcomes |= set(cell.once.split()) | {"true"}
        note = f"{cell.name} {'always' if always else 'once'}, {hits} of {tried}"
        return Expected(text, answer.score, frozenset(outcomes), cell.errors, note)

    def batch(self, env: Environment | Sequence[Environment], given: Sequence[Answer]) -> None:
        """Run ``given`` and look at every law."""
        self._far = any(cell.far for cell, _ in self.armed.values())
        with _patience(self.client) as late:
            batch = self.client.run_batch(env, [answer.text for answer in given], deadline=_PATIENCE)
        self.ledger.law(not late.is_set(), "no batch hangs")
        check_batch(self.ledger, [self.expected(answer) for answer in given], batch)
        self.armed.clear()
        self.attempts.clear()
        self.hits.clear()


@contextmanager
def _patience(client: DeepGym) -> Iterator[threading.Event]:
    """Stop the client, so that its batch comes back, if that takes too long."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        client.close()

    timer = threading.Timer(_PATIENCE, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def fill_cells(injector: Injector, cells: Sequence[Cell]) -> int:
    """Batches of random sizes with random rates of faults until these cells (one part in one phase) have had
    their share; how often they were struck.
    """
    rng = random.Random(cells[0].name)
    struck, name = injector.ledger.struck, cells[0].name
    before = struck[name]
    for cell in cells:
        _fill(injector, cell, rng)
    for turn in range(_MOST_BATCHES):
        if struck[name] - before >= QUOTA:
            break
        _run(injector, cells[turn % len(cells)], [False] * 12, rng, 0.5)
    return struck[name] - before


def _fill(injector: Injector, cell: Cell, rng: random.Random) -> None:
    modes = [True] * cell.runs[0] + [False] * cell.runs[1]
    rng.shuffle(modes)
    while modes:
        share = modes[: rng.randint(4, 20)]
        del modes[: len(share)]
        _run(injector, cell, share, rng, 0.12 if cell.far else rng.uniform(0.1, 0.6))


def _run(injector: Injector, cell: Cell, modes: list[bool], rng: random.Random, rate: float) -> None:
    count = max(len(modes), round(len(modes) / rate))
    chosen = dict(zip(rng.sample(range(count), len(modes)), modes, strict=True))
    task = rng.choice(cell.tasks)
    given = answers(count, rng, dict.fromkeys(chosen, cell.waiting), over=task == "one by one")
    for index, always in chosen.items():
        injector.armed[given[index].text.encode()] = (cell, always)
    injector.batch(TASKS[task], given)


def storm(injector: Injector, cells: Sequence[Cell], count: int, rate: float, seed: int) -> None:
    """One batch in which every kind of fault strikes at random."""
    rng = random.Random(seed)
    chosen = {index: rng.choice(cells) for index in range(count) if rng.random() < rate}
    given = answers(count, rng, {index: cell.waiting for index, cell in chosen.items()})
    environments = []
    for index, answer in enumerate(given):
        cell = chosen.get(index)
        environments.append(TASKS[rng.choice(cell.tasks if cell else ("cases", "held", "program"))])
        if cell is not None:
            injector.armed[answer.text.encode()] = (cell, rng.random() < 0.4)
    injector.batch(environments, given)


assert WALL * 2 < _PATIENCE
