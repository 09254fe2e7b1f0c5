"""Completions in, rewards out, for any training loop.

A reward is a float in [0, 1], or ``None`` where the run has no verdict: leave that sample out. Every
list that comes back is as long as the list of completions, and item *i* belongs to completion *i*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from deepgym.extract import Completion, extract_code

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym, DeepGym
    from deepgym.environments import Environment
    from deepgym.models import BatchResult, RunResult
    from deepgym.running.batch import Item, Seeds
    from deepgym.running.observers import Observer

__all__ = ["AsyncRewardFunction", "RewardFunction"]

#: An environment, its name, or the path of its folder.
EnvLike = Union["Environment", str, Path]
Envs = EnvLike | Sequence[EnvLike]
Extract = bool | Callable[[Completion], str]


class _Rewards:
    """What both reward functions share: how completions become runs, and results become rewards."""

    __name__: str

    def __init__(
        self,
        env: Envs | None = None,
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        extract: Extract = True,
        observers: Sequence[object] = (),
        name: str = "deepgym_reward",
    ) -> None:
        self.env = env
        self.max_parallel = max_parallel
        self.seed = seed
        self.deadline = deadline
        self.extract = extract
        self.observers = tuple(observers)
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"

    def _answers(self, completions: Sequence[Completion]) -> list[str]:
        if isinstance(completions, (str, bytes)) or not isinstance(completions, Sequence):
            kind = type(completions).__name__
            raise TypeError(f"completions must be a list with one completion per run, not {kind}")
        return [self._answer(index, completion) for index, completion in enumerate(completions)]

    def _answer(self, index: int, completion: Completion) -> str:
        try:
            if callable(self.extract):
                answer: object = self.extract(completion)
                if not isinstance(answer, str):
                    raise TypeError(f"extract returned {type(answer).__name__}, not text")
                return answer
            if self.extract:
                return extract_code(completion)
            if completion is None or isinstance(completion, str):
                return completion or ""
            raise TypeError(f"with extract=False a completion is code, not {type(completion).__name__}")
        except TypeError as error:
            raise TypeError(f"completions[{index}]: {error}") from error

    def _env(self, env: Envs | None, count: int) -> Any:
        env = self.env if env is None else env
        if env is None:
            raise TypeError("no environment: give one to the reward function, or to this call")
        if isinstance(env, (str, Path)) or not isinstance(env, Sequence):
            return _loadable(env)
        if len(env) != count:
            raise ValueError(f"{len(env)} environments for {count} completions; give one, or one for each")
        return [_loadable(one) for one in env]

    def items(self, completions: Sequence[Completion], env: Envs | None = None) -> list[Item]:
        """The runs that completions become, in order.

        Raises:
            TypeError, ValueError, UnknownNameError, InvalidEnvironmentError: as a call does.
        """
        from deepgym.running.batch import items_of

        answers = self._answers(completions)
        return items_of(self._env(env, len(answers)), answers, self.seed)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"max_parallel": self.max_parallel, "seed": self.seed}
        if self.deadline is not None:
            options["deadline"] = self.deadline
        if self.observers:
            options["observers"] = self.observers
        return options


class RewardFunction(_Rewards):
    """Callable that turns completions (text or conversations) into rewards.

    ``env`` is one environment for all completions or a list with one for each; it may be given at a
    call instead. The code of a completion is its last fenced block (``deepgym.extract``); with
    ``extract=False`` completions are code already, and a callable does it your way. ``None`` and blank
    completions are empty answers, judged like any other.

    ``dg`` is the client to use; without it one is opened at the first call and closed by ``close`` (or
    the end of a ``with`` block). Pickles, and works in a forked child, where it opens its own client.
    """

    def __init__(
        self,
        env: Envs | None = None,
        *,
        max_parallel: int | None = None,
        dg: DeepGym | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        extract: Extract = True,
        observers: Sequence[object] = (),
        name: str = "deepgym_reward",
    ) -> None:
        super().__init__(
            env,
            max_parallel=max_parallel,
            seed=seed,
            deadline=deadline,
            extract=extract,
            observers=observers,
            name=name,
        )
        self.dg = dg
        self._own: dict[int, DeepGym] = {}

    def __call__(self, completions: Sequence[Completion], *, env: Envs | None = None) -> list[float | None]:
        """Reward of each completion; ``None`` where the run has no verdict.

        Raises:
            TypeError: a completion is neither text nor a conversation; the message names its index.
            ValueError: there are several environments, but not one for each completion.
            UnknownNameError: there is no such environment.
        """
        return _rewards(self.results(completions, env=env))

    def shaped_rewards(
        self, completions: Sequence[Completion], *, env: Envs | None = None
    ) -> list[dict[str, float] | None]:
        """``reward_components`` of each completion, ``{}`` if there are none; ``None`` without a verdict."""
        return _shaped(self.results(completions, env=env))

    def per_test_rewards(
        self, completions: Sequence[Completion], *, env: Envs | None = None
    ) -> list[dict[str, float] | None]:
        """Each test's score (``test_0``, ...) and the reward (``overall``); ``None`` without a verdict.

        A run whose fault ended it has no credit in any test, and may have fewer tests than its siblings.
        """
        return _per_test(self.results(completions, env=env))

    def results(self, completions: Sequence[Completion], *, env: Envs | None = None) -> BatchResult:
        """The full results, in order. Runs that couldn't be judged are in it, without a verdict."""
        answers = self._answers(completions)
        envs = self._env(env, len(answers))
        if not answers:
            return _empty()
        return self.client().run_batch(envs, answers, **self._options())

    def judged(
        self, items: Sequence[Item], deadline: float, observers: Sequence[Observer] = ()
    ) -> BatchResult:
        """The results of ``items``, started before ``deadline`` seconds are over; ``observers`` come last."""
        options = {**self._options(), "deadline": deadline, "observers": (*self.observers, *observers)}
        envs, answers = [item.env for item in items], [item.answer for item in items]
        return self.client().run_batch(envs, answers, **options)

    def close(self) -> None:
        """Close the client that this reward function opened itself, if any. It may be used again."""
        client = self._own.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def forget(self) -> DeepGym | None:
        """The client in use, which whoever calls closes; one of its own is opened anew when one is needed."""
        return self.dg if self.dg is not None else self._own.pop(os.getpid(), None)

    def __enter__(self) -> RewardFunction:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": {}}

    def client(self) -> DeepGym:
        """The client: the given one, or this process's own, opened when first asked for."""
        if self.dg is not None:
            return self.dg
        own = self._own.get(os.getpid())
        if own is None:
            from deepgym.client import DeepGym

            # Without a lock, which a fork could leave locked: of two threads' clients the first one in stays.
            new = DeepGym()
            own = self._own.setdefault(os.getpid(), new)
            if own is not new:
                new.close()
        return own


class AsyncRewardFunction(_Rewards):
    """``RewardFunction`` with an ``AsyncDeepGym`` client; every call is awaited, ``close`` too."""

    def __init__(
        self,
        env: Envs | None = None,
        *,
        max_parallel: int | None = None,
        dg: AsyncDeepGym | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        extract: Extract = True,
        observers: Sequence[object] = (),
        name: str = "deepgym_reward",
    ) -> None:
        super().__init__(
            env,
            max_parallel=max_parallel,
            seed=seed,
            deadline=deadline,
            extract=extract,
            observers=observers,
            name=name,
        )
        self.dg = dg
        self._own: dict[int, AsyncDeepGym] = {}

    async def __call__(
        self, completions: Sequence[Completion], *, env: Envs | None = None
    ) -> list[float | None]:
        """Reward of each completion; ``None`` where it has no verdict. Raises as ``RewardFunction`` does."""
        return _rewards(await self.results(completions, env=env))

    async def shaped_rewards(
        self, completions: Sequence[Completion], *, env: Envs | None = None
    ) -> list[dict[str, float] | None]:
        """``reward_components`` of each completion; ``None`` without a verdict."""
        return _shaped(await self.results(completions, env=env))

    async def per_test_rewards(
        self, completions: Sequence[Completion], *, env: Envs | None = None
    ) -> list[dict[str, float] | None]:
        """Each test's score (``test_0``, ...) and the reward (``overall``); ``None`` without a verdict."""
        return _per_test(await self.results(completions, env=env))

    async def results(self, completions: Sequence[Completion], *, env: Envs | None = None) -> BatchResult:
        """The full results, in order. Runs that couldn't be judged are in it, without a verdict."""
        answers = self._answers(completions)
        envs = self._env(env, len(answers))
        if not answers:
            return _empty()
        return await self._client().run_batch(envs, answers, **self._options())

    async def close(self) -> None:
        """Close the client that this reward function opened itself, if any. It may be used again."""
        client = self._own.pop(os.getpid(), None)
        if client is not None:
            await client.close()

    async def __aenter__(self) -> AsyncRewardFunction:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": {}}

    def _client(self) -> AsyncDeepGym:
        if self.dg is not None:
            return self.dg
        from deepgym.client import AsyncDeepGym

        # No await between look-up and store, so tasks of one loop can't open two.
        return self._own.setdefault(os.getpid(), self._own.get(os.getpid()) or AsyncDeepGym())


def _loadable(env: EnvLike) -> Environment | str:
    if isinstance(env, Path):
        from deepgym.environments import load_environment

        return load_environment(env)
    return env


def _empty() -> BatchResult:
    from deepgym.models import BatchResult

    return BatchResult(results=())


def _rewards(batch: BatchResult) -> list[float | None]:
    return [result.reward for result in batch.results]


def _shaped(batch: BatchResult) -> list[dict[str, float] | None]:
    return [dict(r.reward_components or {}) if r.has_verdict else None for r in batch.results]


def _per_test(batch: BatchResult) -> list[dict[str, float] | None]:
    return [_tests(result) if result.has_verdict else None for result in batch.results]


def _tests(result: RunResult) -> dict[str, float]:
    tests = {f"test_{index}": case.score for index, case in enumerate(result.cases or ())}
    return {**tests, "overall": result.score}
