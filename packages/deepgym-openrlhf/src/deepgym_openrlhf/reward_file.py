"""Python file for ``--reward.remote_url``: grades in the engine's process, as the endpoint does.

OpenRLHF loads this file by its path, which ``deepgym openrlhf reward-path`` prints, and calls ``reward_func``
in threads, with one sample each. The variables in ``deepgym_openrlhf.settings`` configure it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym_openrlhf.samples import Sample
    from deepgym_openrlhf.settings import Settings

__all__ = ["Judge", "judge", "reward_func"]

logger = logging.getLogger("deepgym_openrlhf.reward_file")

T = TypeVar("T")

#: Seconds beyond a sample's own that an answer is waited for.
_GRACE = 60.0
_MIDDLE = 0.5


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]) -> dict[str, Any]:
    """The endpoint's answer for these samples. Never raises: OpenRLHF's training run would end."""
    # OpenRLHF up to 0.9.0 sends this function to other processes by value, so its state is the package's.
    from deepgym_openrlhf.reward_file import judge

    return judge().answer(queries, prompts, labels)


class Judge:
    """Grades for threads, in an event loop of its own.

    Args:
        settings: What the variables say.
        dg: The client; by default one for ``DEEPGYM_OPENRLHF_MODE``.

    Raises:
        SettingsError: there is no such provider, or an environment's limits are longer than a sample may
            wait.
        ValueError: the settings don't say what a sample without a verdict gets.
    """

    def __init__(self, settings: Settings, dg: AsyncDeepGym | None = None) -> None:
        if settings.failure is None:
            raise ValueError("what a sample without a verdict gets must be said")
        self._score = settings.failure
        self._seconds = settings.seconds
        self._own = settings.client() if dg is None else None
        self._grading = settings.grading(self._own if dg is None else dg, self._score)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deepgym-rewards", daemon=True)
        self._thread.start()

    def answer(
        self, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[object]
    ) -> dict[str, Any]:
        """OpenRLHF's answer; whatever fails here costs the samples their verdict and nothing more."""
        from deepgym_openrlhf.wire import Query

        arrived = time.monotonic()
        try:
            rows = zip(queries, prompts, labels, strict=True)
            samples = [
                self._grading.sample(Query(str(text), str(prompt or ""), label))
                for text, prompt, label in rows
            ]
            return self._wait(self._answer(samples, arrived), self._seconds + _GRACE)
        except Exception:  # the adapter's edge: nothing of ours stops a trainer
            logger.exception("no verdict for %d samples", len(queries))
            return self._none(len(queries))

    async def _answer(self, samples: Sequence[Sample], arrived: float) -> dict[str, Any]:
        return await self._grading.answer(samples, arrived, self._loop.create_future())

    def close(self) -> None:
        """Close the client that was opened here, and the event loop. What is asked then has no verdict."""
        if self._own is not None:
            self._wait(self._own.close(), _GRACE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        try:
            call = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise
        try:
            return call.result(seconds)
        finally:
            call.cancel()

    def _none(self, count: int) -> dict[str, Any]:
        from deepgym.models import RunResult
        from deepgym_openrlhf.failure import DROPPED
        from deepgym_openrlhf.grading import log_of
        from deepgym_openrlhf.wire import answer

        score = self._score
        number = score if isinstance(score, float) else float("nan") if score == "unsafe_nan" else _MIDDLE
        log = log_of(RunResult(score=0.0, error_type="other"), 0.0)
        scores = [DROPPED if score == "drop_group" else number] * count
        return answer([number] * count, scores, [log] * count)


_lock = threading.Lock()
_judges: dict[int, Judge] = {}


def judge() -> Judge:
    """This process's judge.

    Raises:
        SettingsError: a variable is missing or wrong, or too short for an environment's limits.
    """
    from deepgym_openrlhf.settings import Settings

    with _lock:
        if os.getpid() not in _judges:
            _judges[os.getpid()] = Judge(Settings.read(failure=True))
        return _judges[os.getpid()]


if __name__ == "reward_func":
    # The name that OpenRLHF loads this file under: settings that are wrong end the run before it begins.
    from deepgym_openrlhf.reward_file import judge as _judge

    _judge()
