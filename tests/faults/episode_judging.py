"""Strikes the run that judges an episode with the faults of single runs."""

from __future__ import annotations

import random

from deepgym import AsyncDeepGym
from deepgym.exceptions import SandboxError, TimeoutError, VerifierError
from deepgym.models import RunResult
from deepgym.running.hosts import replay
from deepgym.testing.trees import pack_tree

from . import episode_seams as seams
from .cells import Cell
from .episode_tasks import WORK, answering
from .episodes import Bench, Strike, check
from .injector import Injector
from .tasks import Answer, answers

__all__ = ["judge_episodes"]

#: Strikes of each cell, always and once; and of a dear one.
_MODES = (True, True, True, *[False] * 7)
_FEW = (True, True, False)


async def judge_episodes(injector: Injector, client: AsyncDeepGym, cell: Cell, task: str) -> None:
    """Strike a cell until it had its share; after each strike the same work is judged as it should be."""
    rng = random.Random(f"{cell.name} {task}")
    for number, always in enumerate(_FEW if task.startswith("hungry") else _MODES):
        (answer,) = answers(1, rng, {0: cell.waiting})
        await _one(injector, client, cell, task, answer, always, whole=number == 0)
        if number % 3 == 2 and cell.waiting < 1:
            result = await _judged(client, task, answer)
            check(injector.ledger, result, answer.score, "true", "the same work, unstruck")
    injector.armed.clear()


async def _one(
    injector: Injector, client: AsyncDeepGym, cell: Cell, task: str, answer: Answer, always: bool, whole: bool
) -> None:
    text, ledger = replay(), injector.ledger
    injector.armed, injector.attempts[text], injector.hits[text] = {text: (cell, always)}, 0, 0
    if whole:
        bench = Bench(client, ledger)
        result = await bench.play(
            answering(answer.text, answer.score, WORK[task]), Strike(client), whole=True
        )
    else:
        result = await _judged(client, task, answer)
    expected = injector.expected(Answer(text.decode(), answer.score))
    injector.armed = {}
    note = (f"judging: {expected.note}", task)
    check(ledger, result, answer.score, " ".join(sorted(expected.outcomes)), note)
    if result is not None and expected.errors and expected.outcomes == {"zero"}:
        ledger.law(result.error_type in expected.errors, f"it is one of {sorted(expected.errors)}", note)


async def _judged(client: AsyncDeepGym, task: str, answer: Answer) -> RunResult | None:
    session = seams.to_judge(client, WORK[task], pack_tree({"answer.py": answer.text}))
    try:
        result: RunResult = await session.score()
        return result
    except (SandboxError, TimeoutError, VerifierError) as error:
        return error.result
