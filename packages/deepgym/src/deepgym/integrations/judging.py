"""Grading for a trainer's loop: an answer in time, whatever happens to the judge.

A ``RewardFunction`` already turns what a provider does into results without a verdict. ``Judging`` adds what
a loop of many hours needs besides: a client that raises, hangs or was closed costs its runs their verdict
and nothing more.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from deepgym.contract.verdict import judge
from deepgym.models import BatchResult, RunResult
from deepgym.running.batch import Deadline, Item, worst_case
from deepgym.running.schedule import failure_of, unstarted

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.extract import Completion
    from deepgym.rewards import Envs, RewardFunction

__all__ = ["BEYOND", "GRACE", "Judging", "least_deadline", "share_of_ranks"]

logger = logging.getLogger(__name__)

#: Seconds after a deadline that runs may still take to end, and then a client to close.
GRACE = 30.0
_CLOSING = 20.0
#: Seconds that a call may take longer than its deadline.
BEYOND = GRACE + _CLOSING


class Judging:
    """A ``RewardFunction`` whose ``results`` never raise for infrastructure and always come.

    ``deadline`` seconds after a call began, no run of it starts any more; those that started end by their
    own limits. What isn't over ``GRACE`` seconds later hangs on our side: it gets no verdict, the others keep
    theirs, and the client is closed. The next call opens it anew. Where even closing hangs (``_CLOSING``
    seconds), the reward function's own client is given up for a new one; of a client that was given to it
    nothing is asked until it has closed.

    Works in threads and in forked children; pickles.
    """

    def __init__(self, rewards: RewardFunction, deadline: float, grace: float = GRACE) -> None:
        self.rewards = rewards
        self.deadline = deadline
        self.grace = grace
        self._closers: dict[int, threading.Thread] = {}

    def results(self, completions: Sequence[Completion], env: Envs | None = None) -> BatchResult:
        """Result *i* for completion *i*. A run that our side failed, or that didn't end, has no verdict.

        Raises:
            TypeError, ValueError, UnknownNameError, InvalidEnvironmentError: the arguments are wrong, as for
                ``RewardFunction``; or the deadline can't hold a run and its repetition.
        """
        items = self.rewards.items(completions, env)
        if not items:
            return BatchResult(results=())
        Deadline(self.deadline, items)
        if (closer := self._closers.get(os.getpid())) is not None:
            if closer.is_alive():
                return _none(
                    items, {}, "provider", "the client of this reward function hangs since an earlier call"
                )
            del self._closers[os.getpid()]
        call = _Call(self.rewards, items, self.deadline)
        try:
            call.start()
            over = call.wait(self.deadline + self.grace)
        except (RuntimeError, MemoryError) as error:  # no thread to be had
            call.error, over = error, True
        if not over:
            self._give_up()
            message = f"not over {self.grace:g} s after the deadline of {self.deadline:g} s: the judge hangs"
            return _none(items, call.found, "provider", message)
        if call.batch is not None:
            return call.batch
        failure = failure_of(_as_exception(call.error))
        return _none(items, call.found, failure.kind, failure.message)

    def _give_up(self) -> None:
        client = self.rewards.forget()
        closer = threading.Thread(target=_close, args=(client,), name="deepgym-closing", daemon=True)
        closer.start()
        closer.join(_CLOSING)
        if closer.is_alive() and self.rewards.dg is not None:
            self._closers[os.getpid()] = closer

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_closers": {}}


class _Call:
    """One batch in a thread of its own, so that whoever waits for it can stop waiting."""

    def __init__(self, rewards: RewardFunction, items: list[Item], deadline: float) -> None:
        self.found: dict[int, RunResult] = {}
        self.batch: BatchResult | None = None
        self.error: BaseException | None = None
        self._rewards, self._items, self._deadline = rewards, items, deadline
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="deepgym-judging", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def on_phase(self, index: int, phase: object) -> None:
        """Observer: nothing to do."""

    def on_result(self, index: int, result: RunResult) -> None:
        """Observer: keep what is over."""
        self.found[index] = result

    def _run(self) -> None:
        try:
            self.batch = self._rewards.judged(self._items, self._deadline, [self])
        except BaseException as error:  # noqa: BLE001 - the adapter's edge: nothing of ours stops a trainer
            self.error = error
        finally:
            self._over.set()


def _none(items: Sequence[Item], found: dict[int, RunResult], kind: str, message: str) -> BatchResult:
    """What was found; for the rest no verdict, said once."""
    found = dict(found)
    missing = len(items) - len(found)
    if missing:
        logger.warning("no verdict for %d of %d completions: %s", missing, len(items), message)
    results = [
        found[index] if index in found else judge(unstarted(item, kind, message))
        for index, item in enumerate(items)
    ]
    return BatchResult(results=tuple(results))


def _as_exception(error: BaseException | None) -> Exception:
    """A thread's SystemExit or CancelledError is a failure of ours like any other."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


def _close(client: DeepGym | None) -> None:
    try:
        if client is not None:
            client.close()
    except (Exception, CancelledError):
        logger.warning("a judge that hung couldn't be closed", exc_info=True)


def least_deadline(envs: Sequence[Any]) -> float:
    """Seconds that a deadline must hold for each of ``envs``: one run and its repetition."""
    return max((2 * worst_case(env) for env in envs), default=0.0)


def share_of_ranks(provider: object, asked: int | None = None) -> int | None:
    """Runs that this process of a distributed run should start at once; ``None``: as many as there is room.

    The local provider's slots are shared by all processes of a host, so each starts its share of them
    (``LOCAL_WORLD_SIZE``) and none waits long in another's queue. What is asked of a remote provider is one
    quota for the whole run (``WORLD_SIZE``). Without these variables, as without a launcher, one process
    has it all.
    """
    from deepgym.providers.local import LocalProvider

    local = isinstance(provider, LocalProvider)
    room: int | None = getattr(provider, "slots", None)
    if asked is not None:
        room = asked if room is None else min(asked, room)
    ranks = _ranks("LOCAL_WORLD_SIZE" if local else "WORLD_SIZE")
    return room if room is None or ranks == 1 else max(1, -(-room // ranks) if local else room // ranks)


def _ranks(name: str) -> int:
    text = os.environ.get(name, "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else 1
