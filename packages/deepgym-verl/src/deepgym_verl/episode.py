"""One trajectory's session: opened while the model writes, acted in, graded once, always closed.

Everything here runs in the event loop of the judge's client; a worker's loop only waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from deepgym.contract.evidence import Failure
from deepgym.integrations.episodes import grading_seconds, unjudged
from deepgym.integrations.runs import plain
from deepgym.models import RunResult
from deepgym.running.schedule import failure_of

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym.environments import MultiTurnEnvironment
    from deepgym.session import AsyncSession, Observation

    from .judge import Judge

__all__ = ["OVER", "Episode", "LostError"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
OVER = "The episode is over. The work directory is graded as it stands."
#: Seconds that a call may take beyond its own limits before our side is taken for hanging.
PATIENCE = 120.0
_CLOSING = 30.0


class LostError(Exception):
    """Our side failed: the episode has no verdict, and nothing about it is for the policy to read."""


class Episode:
    """A trajectory's. ``result`` is there once it is certain: judged, or lost by a failure of ours."""

    def __init__(self, judge: Judge, env: MultiTurnEnvironment) -> None:
        self.env = env
        self.result: RunResult | None = None
        self._judge = judge
        self._session: AsyncSession | None = None
        self._room: asyncio.Semaphore | None = None
        self._turn: asyncio.Lock | None = None
        self._opening: Future[None] | None = None

    @property
    def steps(self) -> int:
        """Steps so far."""
        return 0 if self._session is None else self._session.steps

    @property
    def over(self) -> bool:
        """Whether nothing but grading can follow."""
        return self.result is not None or (self._session is not None and self._session.done)

    def begin(self) -> None:
        """Start opening the session. Never raises: what goes wrong is noticed at the first use."""
        try:
            self._opening = self._judge.submit(self._open)
        except Exception as error:  # noqa: BLE001 - the adapter's edge, here and below
            self._lose(error)

    async def act(self, call: Mapping[str, Any]) -> Observation | None:
        """What the policy is shown of a tool's call; ``None`` if the episode is over.

        Raises:
            LostError: our side failed.
        """
        return await self._inside(lambda _: self._act(call))

    async def grade(self) -> RunResult:
        """The result, without a verdict if our side failed. Never raises."""
        if self.result is None:
            with contextlib.suppress(LostError):
                self.result = await self._inside(lambda _: self._grade())
        assert self.result is not None
        return self.result

    async def close(self) -> None:
        """End the session. Never raises, and doesn't wait for ever."""
        if self._opening is not None:
            self._opening.cancel()
        try:
            closing = self._judge.submit(lambda _: self._close())
            await asyncio.wait([asyncio.wrap_future(closing)], timeout=_CLOSING)
        except Exception:
            logger.warning("a session couldn't be closed", exc_info=True)

    async def _inside(self, make: Callable[[AsyncDeepGym], Coroutine[Any, Any, _T]]) -> _T:
        if self.result is not None and not self.result.has_verdict:
            raise LostError
        try:
            return await self._judge.inside(make)
        except LostError:
            raise
        except Exception as error:
            self._lose(error)
            raise LostError from error

    async def _open(self, dg: AsyncDeepGym) -> None:
        room = _room_of(dg, self._judge.options.max_sessions)
        await room.acquire()
        self._room = room
        self._session = dg.session(self.env)
        seconds = 2 * self.env.limits.setup + PATIENCE
        await _within(self._session.reset(), seconds, f"no sandbox was open after {seconds:.0f} s")

    async def _opened(self) -> AsyncSession:
        if self._opening is None:
            raise RuntimeError("the session was never opened")
        opening = asyncio.wrap_future(self._opening)
        await asyncio.wait([opening])  # so that giving up one call doesn't give up the session
        if opening.cancelled():
            raise RuntimeError("the session's opening was given up")
        opening.result()
        assert self._session is not None
        return self._session

    async def _act(self, call: Mapping[str, Any]) -> Observation | None:
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            session = await self._opened()
            if session.done:
                return None
            seconds = self.env.limits.step + PATIENCE
            if self.env.step_verify is not None:
                seconds += grading_seconds(self.env)
            return await _within(session.step(call), seconds, f"a step wasn't over after {seconds:.0f} s")

    async def _grade(self) -> RunResult:
        session = await self._opened()
        seconds = grading_seconds(self.env) + PATIENCE
        return await _within(session.score(), seconds, f"grading wasn't over after {seconds:.0f} s")

    async def _close(self) -> None:
        try:
            if self._session is not None:
                await self._session.close()
        finally:
            room, self._room = self._room, None
            if room is not None:
                room.release()

    def _lose(self, error: Exception) -> None:
        """A session's own errors have been judged by the contract's rule already: they are ours."""
        found = getattr(error, "result", None)
        if not isinstance(found, RunResult) or found.has_verdict:
            found = unjudged(_failure(error), self.env, self._session)
        if self.result is None:
            self.result = found
            logger.warning("an episode has no verdict: %s: %s", found.error_type, plain(found.error or ""))


class _OverdueError(Exception):
    """A call that our side didn't end in time."""


def _failure(error: Exception) -> Failure:
    if isinstance(error, _OverdueError):
        return Failure(kind="provider", message=str(error))
    return failure_of(error)


async def _within(work: Coroutine[Any, Any, _T], seconds: float, late: str) -> _T:
    """``await work``, which isn't waited for any longer than that, nor for its clean-up."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    if task.done():
        return task.result()
    raise _OverdueError(late)


#: A client that is closed and used again has a new event loop.
_rooms: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


def _room_of(dg: AsyncDeepGym, asked: int | None) -> asyncio.Semaphore:
    """Places for sessions of one client: waiting for one is no failure, however long it takes."""
    loop = asyncio.get_running_loop()
    if loop not in _rooms:
        _rooms[loop] = asyncio.Semaphore(asked or getattr(dg.provider, "max_sessions", None) or 64)
    return _rooms[loop]
