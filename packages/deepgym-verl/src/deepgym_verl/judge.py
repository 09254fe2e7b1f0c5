"""What grades in one process of verl's: for all of its samples, in an event loop of its own.

verl's workers run hundreds of samples in one event loop, so nothing here blocks it: runs and sessions live in
the loop of DeepGym's client, in a thread, and the worker's only waits for what comes back.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from deepgym.contract.verdict import judge
from deepgym.environments import Environment, MultiTurnEnvironment
from deepgym.exceptions import SandboxError
from deepgym.extract import extract_code
from deepgym.integrations.judging import GRACE
from deepgym.integrations.labels import Task, TaskLabels
from deepgym.integrations.reward import MaskedRate
from deepgym.integrations.runs import Runs, plain
from deepgym.running.batch import Item, items_of
from deepgym.running.schedule import failure_of, unstarted

from .options import Options, OptionsError
from .surroundings import warn_once

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym, DeepGym
    from deepgym.models import RunResult

__all__ = ["MASKED", "Judge", "judge_for", "label_of"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
#: Of everything that this process grades, whichever function or loop asks.
MASKED = MaskedRate("deepgym_verl")
#: Where a row names its environment.
_KEYS = ("env", "env_id", "environment", "task_id")
_OURS = "deepgym/"
#: Characters of a response that are read at once.
_LONG = 5_000
#: Seconds after which the client's event loop is asked whether it still answers, and has for the answer.
_BEAT = 60.0


class Judge:
    """Grades completions and opens sessions for the coroutines of any event loop.

    Args:
        options: What the run says about its rewards.
        dg: The client, instead of one for ``options.mode``.

    Raises:
        OptionsError: there is no such environment or provider, or ``deadline`` is too short for a run.
    """

    def __init__(self, options: Options, dg: DeepGym | None = None) -> None:
        self.options = options
        self.labels: TaskLabels = options.labels()
        self._own = dg is None
        self.dg = options.client() if dg is None else dg
        self._runs = Runs(self.dg.asynchronous, options.max_parallel)

    def item(self, label: object, completion: str) -> Item:
        """The run that a completion becomes.

        Raises:
            UnknownLabelError: the label names no environment.
            OptionsError: it names one for an agent, or one whose limits are longer than ``deadline``.
        """
        env = self._env(label)
        if isinstance(env, MultiTurnEnvironment):
            raise OptionsError(
                f"environment {env.name!r} is for an agent that acts in steps: give its rows the agent loop "
                "deepgym_agent (the column agent_name, or "
                "actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_agent)"
            )
        assert isinstance(env, Environment)
        self.options.check(env)
        (item,) = items_of(env, [extract_code(completion)], None)
        return item

    def episode_env(self, label: object) -> MultiTurnEnvironment:
        """The environment of an agent's row.

        Raises:
            UnknownLabelError: the label names no environment.
            OptionsError: it names one that is answered in one piece.
        """
        env = self._env(label)
        if not isinstance(env, MultiTurnEnvironment):
            raise OptionsError(
                f"environment {env.name!r} is answered in one piece, without tools: give its rows the agent "
                "loop deepgym_single_turn, or name one of `deepgym episodes` in env"
            )
        return env

    def _env(self, label: object) -> Task:
        env: Task = self.labels.environment(label)
        if isinstance(label, str) and label.lower() != env.name.lower() and self.options.env is not None:
            warn_once(
                "another environment",
                f"a row names the environment {label[:80]!r}, but reward_kwargs.env is {env.name!r} alone, "
                "which grades every row; name all environments of the rows there",
            )
        return env

    async def result(self, label: object, completion: str) -> RunResult:
        """The result of a completion; without a verdict where our side failed. Counts it.

        ``deadline`` seconds after this was called its run isn't started any more; one that started ends by
        its own limits.

        Raises:
            UnknownLabelError, OptionsError: as ``item``.
        """
        # Text of a policy's making can take long to read, and other samples would wait.
        if len(completion) > _LONG:
            item = await asyncio.to_thread(self.item, label, completion)
        else:
            item = self.item(label, completion)
        result = await self.counted(item)
        MASKED.record(result)
        return result

    async def counted(self, item: Item) -> RunResult:
        """The result of a run, whatever happens to the client."""
        start_by = time.monotonic() + self.options.deadline
        try:
            return await self.inside(lambda _: self._graded(item, start_by))
        except Exception as error:  # noqa: BLE001 - the adapter's edge: nothing of ours stops a trainer
            failure = failure_of(error)
            logger.warning("a run has no verdict: %s", plain(failure.message))
            return judge(unstarted(item, failure.kind, failure.message))

    async def _graded(self, item: Item, start_by: float) -> RunResult:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return await self._runs.graded(item, start_by, start_by + GRACE, never)

    async def inside(self, make: Callable[[AsyncDeepGym], Coroutine[Any, Any, _T]]) -> _T:
        """Await ``make(client)`` in the client's own event loop; being cancelled cancels it there.

        Raises:
            SandboxError: the client was closed meanwhile, or its event loop no longer answers.
        """
        work = asyncio.wrap_future(self.submit(make))
        try:
            while not (await asyncio.wait([work], timeout=_BEAT))[0]:
                await self._beat(work)
        except _HangsError:
            raise
        except BaseException:
            work.cancel()
            raise
        if work.cancelled():
            raise SandboxError("the client was closed meanwhile")
        return work.result()

    async def _beat(self, work: asyncio.Future[Any]) -> None:
        """Raise if the client's event loop, which ends what takes too long, doesn't answer itself."""
        beat = asyncio.wrap_future(self.submit(_nothing))
        await asyncio.wait([beat, work], timeout=_BEAT, return_when=asyncio.FIRST_COMPLETED)
        if not beat.done() and not work.done():
            raise _HangsError(f"the judge's event loop hasn't answered for {_BEAT:g} s")

    def submit(self, make: Callable[[AsyncDeepGym], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Start it there."""
        return self.dg.submit(make)

    def close(self) -> None:
        """Close the client that was opened here. The judge opens it anew if it is used again."""
        if self._own:
            self.dg.close()


class _HangsError(SandboxError):
    """An event loop that doesn't answer. Nothing is cancelled in it, for that may wait for it."""


async def _nothing(_: AsyncDeepGym) -> None:
    """What an event loop that answers has done at once."""


def label_of(extra_info: object, ground_truth: object = None, data_source: object = None) -> object:
    """What says which environment a row of verl's is for: ``extra_info.env`` (or ``env_id``, ``environment``,
    ``task_id``); without it, in a data source of DeepGym's, the ground truth, or the data source's own name.
    """
    if isinstance(extra_info, Mapping):
        for key in _KEYS:
            if isinstance(extra_info.get(key), str):
                return extra_info[key]
    if isinstance(data_source, str) and data_source.startswith(_OURS):
        return ground_truth if isinstance(ground_truth, str) and ground_truth else data_source[len(_OURS) :]
    return None


_lock = threading.Lock()
_judges: dict[Options, Judge] = {}


def judge_for(options: Options) -> Judge:
    """This process's judge for these options; the same for equal ones.

    Raises:
        OptionsError: as ``Judge``.
    """
    with _lock:
        if options not in _judges:
            _judges[options] = Judge(options)
        return _judges[options]


def _close() -> None:
    for each in list(_judges.values()):
        try:
            each.close()
        except Exception:
            logger.warning("a judge couldn't be closed", exc_info=True)


def _after_fork() -> None:
    # A judge's thread isn't in the child, and a lock that another thread held stays locked there.
    global _lock
    _lock = threading.Lock()
    _judges.clear()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
