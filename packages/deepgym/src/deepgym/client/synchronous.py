"""``DeepGym``: ``AsyncDeepGym`` driven from a thread of its own."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

from deepgym.client.asynchronous import AsyncDeepGym, evaluated
from deepgym.client.portal import Portal
from deepgym.client.session import Session
from deepgym.exceptions import Interrupted, SandboxError
from deepgym.models import BatchResult, EvalResult, RunResult
from deepgym.running.batch import EnvironmentName, EnvLike, Envs, Item, Seeds, items_of, items_of_suite
from deepgym.running.observers import Observer
from deepgym.running.schedule import completed
from deepgym.running.streams import Indexes, Ordered

if TYPE_CHECKING:
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.environments.suites import Suite
    from deepgym.providers.base import Provider
    from deepgym.session.agents import Agent
    from deepgym.session.episode import OnEpisode
    from deepgym.session.records import Trajectory

__all__ = ["DeepGym"]

_T = TypeVar("_T")
_Batch = TypeVar("_Batch", bound=BatchResult)


class DeepGym:
    """``AsyncDeepGym`` for code that isn't async; the same arguments, results and errors.

    Its event loop lives in a thread of its own, so it works inside a running loop (a notebook) too. Ctrl-C in
    ``run_batch`` and ``eval`` raises ``Interrupted``, whose ``batch`` has what was finished.
    """

    def __init__(
        self,
        mode: str = "local",
        *,
        max_parallel: int | None = None,
        provider: Provider | None = None,
        **options: Any,
    ) -> None:
        self.asynchronous = AsyncDeepGym(mode, max_parallel=max_parallel, provider=provider, **options)
        self._reset()

    def _reset(self) -> None:
        self._portal: Portal | None = None
        self._lock = threading.Lock()
        _clients.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"asynchronous": self.asynchronous}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    @property
    def provider(self) -> Provider:
        """The sandbox provider."""
        return self.asynchronous.provider

    def run(self, env: EnvLike, output: str, *, seed: int | None = None) -> RunResult:
        """See ``AsyncDeepGym.run``."""
        try:
            return self._call(lambda: self.asynchronous.run(env, output, seed=seed))
        except CancelledError:
            raise SandboxError("the client was closed while the run was on") from None

    def run_batch(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> BatchResult:
        """See ``AsyncDeepGym.run_batch``."""
        items = items_of(env, outputs, seed)
        return self._fill(
            items, max_parallel, deadline, observers, lambda done: BatchResult(results=tuple(done))
        )

    def eval(
        self,
        suite: Suite | str,
        outputs: Sequence[str] | Mapping[str, str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> EvalResult:
        """See ``AsyncDeepGym.eval``."""
        name, items = items_of_suite(suite, outputs, seed)
        return self._fill(items, max_parallel, deadline, observers, lambda done: evaluated(name, items, done))

    def _fill(
        self,
        items: Sequence[Item],
        max_parallel: int | None,
        deadline: float | None,
        observers: Sequence[Observer],
        batch: Callable[[list[RunResult]], _Batch],
    ) -> _Batch:
        results: list[RunResult | None] = [None] * len(items)
        try:
            self._call(lambda: self.asynchronous._fill(items, results, max_parallel, deadline, observers))
        except CancelledError:  # the client was closed by another thread
            return batch(completed(items, results))
        except KeyboardInterrupt:
            done = sum(result is not None for result in results)
            raise Interrupted(
                f"stopped with {done} of {len(items)} runs finished", batch(completed(items, results))
            ) from None
        return batch(completed(items, results))

    def stream(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: Seeds = None,
        ordered: bool = False,
        observers: Sequence[Observer] = (),
    ) -> Iterator[tuple[int, RunResult]]:
        """Yield ``(index, result)`` as runs finish, or in order. Leaving the loop stops the rest."""
        items = items_of(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        ready: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        watcher = Indexes(ready.put)

        async def fill() -> None:
            try:
                await self.asynchronous._fill(items, results, max_parallel, None, [*observers, watcher])
            finally:
                ready.put(None)

        call = self._loop().start(fill)
        indexes = Ordered() if ordered else None
        try:
            while (index := ready.get()) is not None:
                for number in indexes.take(index) if indexes else (index,):
                    result = results[number]
                    assert result is not None
                    yield number, result
            call.result()
        finally:
            call.stop()

    def session(self, env: MultiTurnEnvironment | EnvironmentName, *, seed: int | None = None) -> Session:
        """See ``AsyncDeepGym.session``; a context manager."""
        return Session(self, self.asynchronous.session(env, seed=seed))

    def run_episode(
        self, env: MultiTurnEnvironment | EnvironmentName, agent: Agent, *, seed: int | None = None
    ) -> Trajectory:
        """See ``AsyncDeepGym.run_episode``."""
        (trajectory,) = self.run_episodes(env, agent, seed=seed)
        return trajectory

    def run_episodes(
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
        """See ``AsyncDeepGym.run_episodes``. Ctrl-C ends what goes on; ``on_episode`` was told the rest."""
        from deepgym.session.episode import completed

        sessions = self.asynchronous._sessions(env, n, seed)
        results: list[Trajectory | None] = [None] * len(sessions)
        try:
            return self._call(
                lambda: self.asynchronous._play(sessions, agent, max_parallel, on_episode, metadata, results)
            )
        except CancelledError:  # the client was closed by another thread
            return completed(sessions, results)

    def submit(self, make: Callable[[AsyncDeepGym], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Start ``await make(asynchronous)`` in the client's event loop, for whoever mustn't block:
        ``await asyncio.wrap_future(dg.submit(...))``. Cancelling the future stops it, as ``close`` does.

        Raises:
            RuntimeError: the client is being closed.
        """
        return self._loop().start_soon(lambda: make(self.asynchronous)).future

    def _loop(self) -> Portal:
        with self._lock:
            if self._portal is None:
                self._portal = Portal()
                weakref.finalize(self, Portal.stop_soon, self._portal).atexit = False
            return self._portal

    def _call(self, make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return self._loop().call(make)

    def close(self) -> None:
        """End the sandboxes and the client's thread. The client starts anew if it is used again."""
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.stop_calls()
            portal.call(self.asynchronous.close)
            portal.stop()

    def __enter__(self) -> DeepGym:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


#: Clients of this process; a forked child's copies start afresh.
_clients: weakref.WeakSet[DeepGym] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
