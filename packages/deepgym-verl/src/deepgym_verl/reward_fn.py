"""``make_verl_reward_fn`` for loops of your own: a reward for each sample, ``None`` where it has no verdict.

::

    reward_fn = make_verl_reward_fn("two_sum", tokenizer=tokenizer)
    rewards = reward_fn(batch)                 # list[float | None], from a DataProto
    rewards = reward_fn(completions)           # text, or conversations
    rewards = await reward_fn.rewards(batch)   # the event loop goes on meanwhile
    results = reward_fn.results(batch)         # all that is known of each run
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from deepgym.contract.verdict import judge
from deepgym.exceptions import SandboxError
from deepgym.integrations.labels import UnknownLabelError
from deepgym.running.schedule import failure_of, unstarted

from .batches import Row, rows_of
from .judge import MASKED, Judge, judge_for
from .options import Options, OptionsError, options_of

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.integrations.labels import TaskEnvs
    from deepgym.models import RunResult
    from deepgym.running.batch import Item

__all__ = ["VerlRewardFn", "make_verl_reward_fn"]

logger = logging.getLogger(__name__)


def make_verl_reward_fn(
    env: TaskEnvs = None, *, tokenizer: Any = None, dg: DeepGym | None = None, **options: Any
) -> VerlRewardFn:
    """A reward function for ``env``, for a training loop of your own.

    Args:
        env: An environment, its name or folder; or a suite, or several, of which a row names one; ``None``:
            each row names a built-in one.
        tokenizer: What decodes a ``DataProto``; not needed for text.
        dg: The client, instead of one that this process shares among equal options.
        options: As ``reward_kwargs`` (see ``deepgym_verl.options``).

    Raises:
        OptionsError: an option is unknown or wrong, or there is no such environment.
        TypeError: ``tokenizer`` or ``dg`` is none.
    """
    if tokenizer is not None and not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(f"tokenizer must have decode(ids), {type(tokenizer).__name__} has none")
    if dg is not None and not callable(getattr(dg, "submit", None)):
        raise TypeError(f"dg must be a DeepGym, whose event loop is its own, not {type(dg).__name__}")
    if dg is not None and options.get("mode") is not None:
        raise OptionsError("give mode or dg, which has a provider already")
    made = VerlRewardFn(options_of(env, options), tokenizer, dg)
    made.judge()
    return made


class VerlRewardFn:
    """Callable that turns a batch into rewards, all of whose samples are graded in parallel.

    Every call takes a batch in one of three forms:

    - a ``DataProto`` after generation: ``responses`` and ``attention_mask``; ``data_source``,
      ``reward_model`` and ``extra_info`` say the environment;
    - a list of completions, each a text or a conversation;
    - ``solution_strs=``, as verl's batch reward managers call.

    The last two take ``data_sources=``, ``ground_truths=`` and ``extra_infos=``, one for each sample.

    What comes back has one item for each sample. It never raises for infrastructure, and raises for a batch
    that it can't read:

    Raises:
        TypeError, ValueError: the batch isn't one of these; says what was expected, and what is there.
        UnknownLabelError, OptionsError: a row names no environment, or one for an agent.

    Pickles if its environments, ``tokenizer`` and client do, and works in a forked child.
    """

    def __init__(self, options: Options, tokenizer: Any = None, dg: DeepGym | None = None) -> None:
        self.options = options
        self.tokenizer = tokenizer
        self.dg = dg
        self.__name__ = "deepgym_verl_reward"
        self._own: dict[int, Judge] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"

    def __call__(self, batch: Any = None, **columns: Any) -> list[float | None]:
        """The reward of each sample; ``None`` where it has no verdict."""
        return [result.reward for result in self.results(batch, **columns)]

    def results(self, batch: Any = None, **columns: Any) -> list[RunResult]:
        """The whole result of each sample, those without a verdict among them."""
        grader = self.judge()
        items = _items(grader, rows_of(batch, self.tokenizer, **columns))
        return _counted(_apart(grader, items))

    async def rewards(self, batch: Any = None, **columns: Any) -> list[float | None]:
        """What a call returns, while the event loop goes on."""
        return [result.reward for result in await self.judged(batch, **columns)]

    async def judged(self, batch: Any = None, **columns: Any) -> list[RunResult]:
        """What ``results`` returns, while the event loop goes on."""
        grader = self.judge()
        rows = rows_of(batch, self.tokenizer, **columns)
        # Finding the code in a long text takes its time.
        items = await asyncio.to_thread(_items, grader, rows)
        return _counted(await _graded(grader, items))

    def judge(self) -> Judge:
        """What grades in this process.

        Raises:
            OptionsError: there is no such environment or provider.
        """
        if self.dg is None:
            return judge_for(self.options)
        if os.getpid() not in self._own:
            self._own = {os.getpid(): Judge(self.options, self.dg)}
        return self._own[os.getpid()]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": {}}


def _items(grader: Judge, rows: Sequence[Row]) -> list[Item]:
    found = []
    for index, (label, completion) in enumerate(rows):
        try:
            found.append(grader.item(label, completion))
        except (OptionsError, TypeError, UnknownLabelError) as error:
            raise type(error)(f"sample {index}: {error}") from error
    return found


async def _graded(grader: Judge, items: Sequence[Item]) -> list[RunResult]:
    return list(await asyncio.gather(*map(grader.counted, items)))


def _counted(results: list[RunResult]) -> list[RunResult]:
    MASKED.record_all(results)
    return results


def _apart(grader: Judge, items: Sequence[Item]) -> list[RunResult]:
    """``_graded`` for a caller that isn't async, whose thread may run an event loop all the same.

    A loop in the caller's own thread would take the place of one that it had set.
    """
    if not items:
        return []
    found: Future[list[RunResult]] = Future()
    stop: Future[Any] = Future()

    async def main() -> list[RunResult]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stop.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))
        return await _graded(grader, items)

    def run() -> None:
        try:
            loop = asyncio.new_event_loop()
            try:
                found.set_result(loop.run_until_complete(main()))
            finally:
                loop.close()
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            found.set_exception(error)

    try:
        threading.Thread(target=run, name="deepgym-verl", daemon=True).start()
        return found.result()
    except KeyboardInterrupt:
        stop.cancel()
        raise
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - no thread or no event loop to be had: nothing was judged
        if not isinstance(error, Exception):
            error = SandboxError("the runs were cancelled")
        failure = failure_of(error)
        logger.warning("no verdict for %d samples: %s", len(items), failure.message)
        return [judge(unstarted(item, failure.kind, failure.message)) for item in items]
