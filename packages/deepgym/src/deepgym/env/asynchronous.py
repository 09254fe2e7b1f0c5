"""``AsyncDeepGymEnv``: ``DeepGymEnv`` with ``await``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio

from deepgym.env.arguments import EnvLike, answers_of, check_client, episode_of, seeded
from deepgym.env.episodes import Actions, Answers, Extract, Step
from deepgym.env.info import Info

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym.environments import Environment, MultiTurnEnvironment
    from deepgym.extract import Completion
    from deepgym.models import RunResult
    from deepgym.running.batch import Seeds
    from deepgym.session import AsyncSession

__all__ = ["AsyncDeepGymEnv"]


class AsyncDeepGymEnv:
    """``DeepGymEnv`` with an ``AsyncDeepGym`` client: the same arguments, results and errors, but every call
    is awaited, ``close`` too. No ``gymnasium.Env``, which can't be awaited, so it has no spaces.

    One call at a time, as with ``DeepGymEnv``; several environments may share a client.
    """

    def __init__(
        self,
        env: EnvLike,
        dg: AsyncDeepGym | None = None,
        *,
        max_turns: int = 1,
        extract: Extract = True,
    ) -> None:
        check_client(dg, awaited=True)
        self._episode = episode_of(env, max_turns, extract)
        self.dg = dg
        self.last_result: RunResult | None = None
        self._own: AsyncDeepGym | None = None
        self._session: AsyncSession | None = None
        self._owner = os.getpid()

    @property
    def environment(self) -> Environment | MultiTurnEnvironment:
        """The task, as data."""
        return self._episode.env

    async def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, Info]:
        """See ``DeepGymEnv.reset``."""
        seed = seeded(seed)
        await self._leave()
        if isinstance(self._episode, Answers):
            return self._episode.begin(seed)
        session = self._client().session(self._episode.env, seed=seed)
        self._session, self._owner = session, os.getpid()
        try:
            first = await session.reset()
        except BaseException:
            await self._leave()
            raise
        return self._episode.begin(session.seed, first)

    async def step(self, action: Any) -> Step:
        """See ``DeepGymEnv.step``; raises what it raises."""
        self._episode.check()
        if isinstance(self._episode, Actions):
            return await self._act(self._episode, action)
        code = self._episode.code(action)
        result = await self._client().run(self._episode.env, code, seed=self._episode.seed)
        self.last_result = result
        return self._episode.judged(action, result)

    async def _act(self, episode: Actions, action: object) -> Step:
        session = self._session
        if session is None or self._owner != os.getpid():
            raise episode.ended("this episode's sandbox belongs to the environment that opened it")
        try:
            seen = await session.step(action)
            final = await session.score() if seen.done else None
        except BaseException as error:
            await self._leave(f"the episode was lost: {type(error).__name__}")
            raise
        told = episode.seen(action, seen, final)
        self.last_result = told[4].result or self.last_result
        if seen.done:
            await self._leave(episode.over)
        return told

    async def step_batch(self, answers: Sequence[Completion], *, seed: Seeds = None) -> list[Step]:
        """See ``DeepGymEnv.step_batch``; never raises for a run."""
        episode = answers_of(self._episode)
        batch = await self._client().run_batch(episode.env, episode.codes(answers), seed=seed)
        return [episode.alone(result) for result in batch.results]

    async def close(self) -> None:
        """Close an open episode's sandbox, and the client if it is the environment's own. Usable again."""
        await self._leave()
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    async def __aenter__(self) -> AsyncDeepGymEnv:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _leave(self, why: str | None = "the episode was left") -> None:
        session, self._session = self._session, None
        if isinstance(self._episode, Actions):
            self._episode.over = why
        if session is not None and self._owner == os.getpid():
            with anyio.CancelScope(shield=True):
                await session.close()

    def _client(self) -> AsyncDeepGym:
        if self.dg is not None:
            return self.dg
        if self._own is None:
            from deepgym.client import AsyncDeepGym

            self._own = AsyncDeepGym()
        return self._own

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": None, "_session": None}
