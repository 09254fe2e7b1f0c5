"""Grading many episodes at once, in bounded time."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Sequence

from deepgym.integrations.episodes import grading_seconds
from deepgym.models import RunResult
from deepgym.running.schedule import failure_of

from .episodes_calls import Pending
from .episodes_play import Episode

__all__ = ["grade_all"]


def grade_all(episodes: Sequence[Episode], parallel: int, deadline: float, grace: float) -> list[RunResult]:
    """The result of each episode, ``parallel`` graded at a time. Never raises, and returns after ``deadline +
    grace`` seconds at the latest.

    ``deadline`` stops admission: a grading that couldn't end in time by its environment's limits isn't
    started. One that hangs beyond its limits makes room for the next, and has no verdict.
    """
    until = time.monotonic() + deadline
    waiting = deque(dict.fromkeys(episode for episode in episodes if episode.result is None))
    running: dict[concurrent.futures.Future[None], tuple[Episode, float]] = {}
    while waiting or running:
        while waiting and len(running) < parallel:
            _start(waiting.popleft(), running, until, until + grace)
        if not running:
            continue
        first = min(overdue for _, overdue in running.values())
        concurrent.futures.wait(
            running, max(0.0, first - time.monotonic()), concurrent.futures.FIRST_COMPLETED
        )
        _finish(running)
    for episode in episodes:
        episode.close()
    return [episode.give_up("supervisor", "the episode was never graded") for episode in episodes]


def _start(
    episode: Episode,
    running: dict[concurrent.futures.Future[None], tuple[Episode, float]],
    until: float,
    last: float,
) -> None:
    now = time.monotonic()
    if now + grading_seconds(episode.env) > until:
        episode.give_up("deadline", "the deadline of the reward function left no room for grading it")
        return
    try:
        pending = Pending(episode.grade)
    except Exception as error:  # noqa: BLE001 - no thread to be had: ours
        failure = failure_of(error)
        episode.give_up(failure.kind, failure.message)
        return
    running[pending.future] = (episode, min(last, now + episode.grading_patience))


def _finish(running: dict[concurrent.futures.Future[None], tuple[Episode, float]]) -> None:
    """Take out what is over, and what hangs."""
    now = time.monotonic()
    for future, (episode, overdue) in list(running.items()):
        if future.done() or now >= overdue:
            del running[future]
        if not future.done() and now >= overdue:
            episode.hang("grading the episode didn't end in time: the judge hangs")
