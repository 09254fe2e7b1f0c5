"""``AsyncDeepGym``: runs answers on a provider and has each judged."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from deepgym.models import BatchResult, EvalResult, RunResult
from deepgym.running.batch import (
    Deadline,
    EnvironmentName,
    EnvLike,
    Envs,
    Item,
    Seeds,
    items_of,
    items_of_suite,
    multi_turn,
    seeds_for,
)
from deepgym.running.observers import Observer, Observers
from deepgym.running.outcome import result_or_raise
from deepgym.running.schedule import Schedule, Ticket, completed
from deepgym.running.streams import Indexes, Ordered

if TYPE_CHECKING:
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.environments.suites import Suite
    from deepgym.providers.base import Provider
    from deepgym.session.agents import Agent
    from deepgym.session.episode import OnEpisode
    from deepgym.session.records import Trajectory
    from deepgym.session.session import AsyncSession

__all__ = ["AsyncDeepGym", "evaluated"]


class AsyncDeepGym:
    """Runs answers and judges them.

    Args:
        mode: Name of the sandbox provider; ``local`` is built in.
        max_parallel: Runs at once; by default, and at most, what the provider has room for (local: cores).
        provider: A ready provider instead of ``mode``.
        options: Passed to the provider.

    Clients pickle (without their running sandboxes) and survive a fork.

    Raises:
        UnknownNameError: no provider of that name; the text has the line that installs it.
    """

    def __init__(
        self,
        mode: str = "local",
        *,
        max_parallel: int | None = None,
        provider: Provider | None = None,
        **options: Any,
    ) -> None:
        if max_parallel is not None and max_parallel < 1:
            raise ValueError(f"max_parallel={max_parallel}: at least one run must be allowed")
        self.mode = mode
        self.max_parallel = max_parallel
        self.provider = _provider(mode, options) if provider is None else provider
        self._schedule = Schedule(self.provider)

    def __getstate__(self) -> dict[str, Any]:
        return {"mode": self.mode, "max_parallel": self.max_parallel, "provider": self.provider}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schedule = Schedule(self.provider)

    async def run(self, env: EnvLike, output: str, *, seed: int | None = None) -> RunResult:
        """Run one answer. ``output`` is code as it is, or a body that continues the environment's prefix.

        Raises:
            SandboxError: the provider failed, or the sandbox died before the answer came into play.
            TimeoutError: time ran out before the answer came into play (``deepgym.exceptions``' own class).
            VerifierError: the verifier crashed or gave no result before the answer came into play.
                Each carries the result without a verdict as ``result``.
        """
        (item,) = items_of(env, [output], seed)
        return result_or_raise(await self._schedule.evidence(Ticket(item)))

    async def run_batch(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> BatchResult:
        """Run many answers; result ``i`` belongs to output ``i``. What ``run`` raises is here a result
        without a verdict.

        Args:
            env: One environment for all, or one for each output.
            seed: One for all, or one for each output; by default each environment's own.
            deadline: Seconds that the batch may take. A run that couldn't end in time isn't started and comes
                back without a verdict.
            observers: Told of phases and results.

        Raises:
            ValueError, TypeError: the arguments don't fit together. Never for what a run or a provider did.
        """
        items = items_of(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        await self._fill(items, results, max_parallel, deadline, observers)
        return BatchResult(results=tuple(completed(items, results)))

    async def eval(
        self,
        suite: Suite | str,
        outputs: Sequence[str] | Mapping[str, str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> EvalResult:
        """Run one answer for each environment of a suite: in suite order, or by environment name.

        Raises:
            ValueError: an output is missing or belongs to no environment of the suite.
        """
        name, items = items_of_suite(suite, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        await self._fill(items, results, max_parallel, deadline, observers)
        return evaluated(name, items, completed(items, results))

    async def stream(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        ordered: bool = False,
        observers: Sequence[Observer] = (),
    ) -> AsyncIterator[tuple[int, RunResult]]:
        """Yield ``(index, result)`` as runs finish, or in order. Leave early through
        ``contextlib.aclosing``.
        """
        items = items_of(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        send, receive = anyio.create_memory_object_stream[int](max(1, len(items)))
        watcher = Indexes(send.send_nowait)
        async with anyio.create_task_group() as group:

            async def fill() -> None:
                async with send:
                    await self._fill(items, results, max_parallel, None, [*observers, watcher])

            group.start_soon(fill)
            async with receive:
                indexes = Ordered() if ordered else None
                async for index in receive:
                    for ready in indexes.take(index) if indexes else (index,):
                        result = results[ready]
                        assert result is not None
                        try:
                            yield ready, result
                        except GeneratorExit:  # out of the group first, or it would come wrapped
                            group.cancel_scope.cancel()
                            return

    def session(
        self, env: MultiTurnEnvironment | EnvironmentName, *, seed: int | None = None
    ) -> AsyncSession:
        """An episode's place in a multi-turn environment, given or by its name; an async context manager.

        ``seed``: of the set-up and the verifier; by default the environment's own. Nothing is opened before
        ``reset``.

        Raises:
            UnknownNameError, InvalidEnvironmentError: no such multi-turn environment.
        """
        from deepgym.session.session import AsyncSession

        (number,) = seeds_for(seed, 1)
        return AsyncSession(self._schedule, multi_turn(env), number)

    async def run_episode(
        self, env: MultiTurnEnvironment | EnvironmentName, agent: Agent, *, seed: int | None = None
    ) -> Trajectory:
        """Have an agent play one episode, and judge it. The trajectory's ``result`` is always there; it has
        no verdict where our side failed, the model's server among it.

        Args:
            agent: A callable, async or not, from the trajectory so far to the next action (see
                ``docs/episodes.md``), or a ``ChatAgent``.
            seed: Of the set-up and the verifier; by default the environment's own.

        Raises:
            Exception: what the agent raises before its first action, unless infrastructure failed it.
        """
        from deepgym.session.episode import run_episode

        return await run_episode(lambda: self.session(env, seed=seed), agent)

    async def run_episodes(
        self,
        env: MultiTurnEnvironment | EnvironmentName | Sequence[MultiTurnEnvironment | EnvironmentName],
        agent: Agent,
        *,
        n: int = 1,
        seed: Seeds = None,
        max_parallel: int | None = None,
        on_episode: OnEpisode | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Trajectory]:
        """Many episodes at once; trajectory ``i`` belongs to episode ``i``.

        Args:
            env: One environment, or one for each episode.
            n: Episodes of each.
            seed: One for all, or one for each episode; by default each environment's own.
            max_parallel: Episodes at once; by default as many as the provider has room for.
            on_episode: Told ``(index, trajectory)`` as each ends.
            metadata: Put into each trajectory.

        Raises:
            Exception: as ``run_episode``; the other episodes are stopped then.
        """
        return await self._play(self._sessions(env, n, seed), agent, max_parallel, on_episode, metadata)

    async def _play(
        self,
        sessions: list[AsyncSession],
        agent: Agent,
        max_parallel: int | None,
        on_episode: OnEpisode | None,
        metadata: Mapping[str, Any] | None,
        results: list[Trajectory | None] | None = None,
    ) -> list[Trajectory]:
        from deepgym.session.episode import run_episodes

        return await run_episodes(
            sessions,
            agent,
            max_parallel=max_parallel or self._room_for_sessions(),
            on_episode=on_episode,
            results=results,
            metadata=metadata,
        )

    def _sessions(
        self,
        env: MultiTurnEnvironment | EnvironmentName | Sequence[MultiTurnEnvironment | EnvironmentName],
        n: int,
        seed: Seeds,
    ) -> list[AsyncSession]:
        if n < 1:
            raise ValueError(f"n={n}: at least one episode is needed")
        one = isinstance(env, (str, os.PathLike)) or not isinstance(env, Sequence)
        given: Sequence[Any] = [env] if one else env  # type: ignore[assignment]
        environments = [multi_turn(each) for each in given for _ in range(n)]
        return [
            self.session(each, seed=number)
            for each, number in zip(environments, seeds_for(seed, len(environments)), strict=True)
        ]

    def _room_for_sessions(self) -> int:
        room: int = getattr(self.provider, "max_sessions", 0) or os.cpu_count() or 1
        return room

    async def _fill(
        self,
        items: Sequence[Item],
        results: list[RunResult | None],
        max_parallel: int | None,
        deadline: float | None,
        observers: Sequence[Observer],
    ) -> None:
        if max_parallel is not None and max_parallel < 1:
            raise ValueError(f"max_parallel={max_parallel}: at least one run must be allowed")
        limit = Deadline(deadline, items)
        await self._schedule.batch(items, results, self._parallel(max_parallel), limit, Observers(observers))

    def _parallel(self, asked: int | None) -> int:
        wanted = asked or self.max_parallel
        room: int | None = getattr(self.provider, "slots", None)
        if room is None:
            return wanted or os.cpu_count() or 1
        return min(wanted or room, room)

    async def close(self) -> None:
        """End the provider's sandboxes. The client opens new ones if it is used again."""
        await self.provider.close()

    async def __aenter__(self) -> AsyncDeepGym:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def evaluated(name: str, items: Sequence[Item], results: Sequence[RunResult]) -> EvalResult:
    """The evaluation that ``results`` of a suite's items are."""
    return EvalResult(suite=name, results=tuple(results), env_names=tuple(item.env.name for item in items))


def _provider(mode: str, options: dict[str, Any]) -> Provider:
    if mode == "local":
        from deepgym.providers.local import LocalProvider

        return LocalProvider(**options)
    from deepgym.plugins import load

    made: Any = load("deepgym.providers", mode)
    provider: Provider = made(**options)
    return provider
