"""``AsyncDeepGym`` and ``DeepGym``: what people call. The second is the first, driven from a thread of its own."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from deepgym.contract.evidence import Phase
from deepgym.contract.verdict import judge
from deepgym.environments.environment import Environment
from deepgym.exceptions import Interrupted, SandboxError, TimeoutError, VerifierError
from deepgym.models import BatchResult, EvalResult, RunResult
from deepgym.running.observers import Observer, Observers
from deepgym.running.schedule import Deadline, Item, Schedule, unstarted

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from deepgym.environments.suites import Suite
    from deepgym.providers.base import Provider

__all__ = ["AsyncDeepGym", "DeepGym"]

_T = TypeVar("_T")
EnvLike = Environment | str
Envs = EnvLike | Sequence[EnvLike]


def _environment(env: EnvLike) -> Environment:
    if isinstance(env, Environment):
        return env
    if isinstance(env, (str, os.PathLike)):
        from deepgym.environments.registry import load_environment

        return load_environment(env)
    raise TypeError(f"env must be an Environment or a name, got {type(env).__name__}")


def _items(env: Envs, outputs: Sequence[str], seed: int | None) -> list[Item]:
    if isinstance(outputs, (str, bytes)):
        raise TypeError("outputs must be a list of answers, got one string; wrap it in a list or use run")
    answers = list(outputs)
    if isinstance(env, (Environment, str, os.PathLike)):
        environments = [_environment(env)] * len(answers)
    else:
        environments = [_environment(one) for one in env]
        if len(environments) != len(answers):
            raise ValueError(f"{len(environments)} environments for {len(answers)} outputs; give one for each output")
    for index, answer in enumerate(answers):
        if not isinstance(answer, str):
            raise TypeError(f"outputs[{index}] must be a string of code, got {type(answer).__name__}")
    return [Item(one, answer, seed) for one, answer in zip(environments, answers)]


def _suite_items(suite: Suite | str, outputs: Sequence[str] | Mapping[str, str], seed: int | None) -> tuple[str, list[Item]]:
    from deepgym.environments.suites import Suite, load_suite

    found = suite if isinstance(suite, Suite) else load_suite(suite)
    environments = list(found.environments)
    if isinstance(outputs, Mapping):
        missing = [env.name for env in environments if env.name not in outputs]
        unknown = sorted(set(outputs) - {env.name for env in environments})
        if missing or unknown:
            raise ValueError(
                f"outputs don't fit suite {found.name!r}: missing {missing[:3]}, unknown {unknown[:3]} "
                f"({len(missing)} and {len(unknown)} in all)"
            )
        outputs = [outputs[env.name] for env in environments]
    if len(outputs) != len(environments):
        raise ValueError(f"{len(outputs)} outputs for the {len(environments)} environments of suite {found.name!r}")
    return found.name, _items(environments, outputs, seed)


def _complete(items: Sequence[Item], results: Sequence[RunResult | None]) -> list[RunResult]:
    """Every result, those that are missing without a verdict."""
    return [
        judge(unstarted(item, "cancelled", "the batch was stopped before this run was over")) if result is None else result
        for item, result in zip(items, results)
    ]


class AsyncDeepGym:
    """Runs answers and judges them.

    Args:
        mode: Name of the sandbox provider; ``local`` is built in.
        max_parallel: Runs at once; by default the cores that this process may use, or what the provider takes.
        provider: A ready provider instead of ``mode``.
        options: Passed to the provider.

    Clients pickle (without their running sandboxes) and survive a fork.

    Raises:
        UnknownNameError: no provider of that name; the text has the line that installs it.
    """

    def __init__(
        self, mode: str = "local", *, max_parallel: int | None = None, provider: Provider | None = None, **options: Any
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
        (item,) = _items(env, [output], seed)
        evidence = await self._schedule.evidence(item)
        result = judge(evidence)
        verifier = evidence.verifier
        said_so = verifier is not None and (verifier.exit_code == 2 or evidence.report is not None)
        if result.has_verdict or (said_so and evidence.failure is None):
            return result
        message = f"{result.error_type}: {result.error}"
        if result.error_type == "timeout":
            raise TimeoutError(message, result)
        if result.error_type == "verifier_error":
            raise VerifierError(message, result)
        raise SandboxError(message, result)

    async def run_batch(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> BatchResult:
        """Run many answers; result ``i`` belongs to output ``i``. What ``run`` raises is a result without a verdict here.

        Args:
            env: One environment for all, or one for each output.
            deadline: Seconds after which no run may start that couldn't end in time; those come back without a verdict.
            observers: Told of phases and results.

        Raises:
            ValueError, TypeError: the arguments don't fit together. Never for what a run or a provider did.
        """
        items = _items(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        await self._fill(items, results, max_parallel, deadline, observers)
        return BatchResult(results=_complete(items, results))

    async def eval(
        self,
        suite: Suite | str,
        outputs: Sequence[str] | Mapping[str, str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> EvalResult:
        """Run one answer for each environment of a suite: outputs in suite order, or by environment name.

        Raises:
            ValueError: an output is missing or belongs to no environment of the suite.
        """
        name, items = _suite_items(suite, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        await self._fill(items, results, max_parallel, deadline, observers)
        return _evaluated(name, items, results)

    async def stream(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        ordered: bool = False,
        observers: Sequence[Observer] = (),
    ) -> AsyncIterator[tuple[int, RunResult]]:
        """Yield ``(index, result)`` as runs finish, or in order. Leave early through ``contextlib.aclosing``."""
        items = _items(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        send, receive = anyio.create_memory_object_stream[int](max(1, len(items)))
        watcher = _Indexes(send.send_nowait)
        async with anyio.create_task_group() as group:

            async def fill() -> None:
                async with send:
                    await self._fill(items, results, max_parallel, None, [*observers, watcher])

            group.start_soon(fill)
            async with receive:
                indexes = _Ordered() if ordered else None
                async for index in receive:
                    for ready in indexes.take(index) if indexes else (index,):
                        result = results[ready]
                        assert result is not None
                        yield ready, result

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
            return wanted or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else wanted or 1
        return min(wanted or room, room)

    async def close(self) -> None:
        """End the provider's sandboxes. The client opens new ones if it is used again."""
        await self.provider.close()

    async def __aenter__(self) -> AsyncDeepGym:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class DeepGym:
    """``AsyncDeepGym`` for code that isn't async; the same arguments, results and errors.

    Its event loop lives in a thread of its own, so it works inside a running loop (a notebook) too. Ctrl-C in
    ``run_batch`` and ``eval`` raises ``Interrupted``, whose ``batch`` has what was finished.
    """

    def __init__(
        self, mode: str = "local", *, max_parallel: int | None = None, provider: Provider | None = None, **options: Any
    ) -> None:
        self.asynchronous = AsyncDeepGym(mode, max_parallel=max_parallel, provider=provider, **options)
        self._reset()

    def _reset(self) -> None:
        self._loop: _Loop | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

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
        return self._call(lambda: self.asynchronous.run(env, output, seed=seed))

    def run_batch(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> BatchResult:
        """See ``AsyncDeepGym.run_batch``."""
        items = _items(env, outputs, seed)
        results = self._fill(items, max_parallel, deadline, observers, lambda done: BatchResult(results=done))
        return BatchResult(results=results)

    def eval(
        self,
        suite: Suite | str,
        outputs: Sequence[str] | Mapping[str, str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        deadline: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> EvalResult:
        """See ``AsyncDeepGym.eval``."""
        name, items = _suite_items(suite, outputs, seed)
        results = self._fill(items, max_parallel, deadline, observers, lambda done: _evaluated(name, items, done))
        return _evaluated(name, items, results)

    def _fill(
        self,
        items: Sequence[Item],
        max_parallel: int | None,
        deadline: float | None,
        observers: Sequence[Observer],
        batch: Callable[[list[RunResult]], BatchResult],
    ) -> list[RunResult]:
        results: list[RunResult | None] = [None] * len(items)
        try:
            self._call(lambda: self.asynchronous._fill(items, results, max_parallel, deadline, observers))
        except KeyboardInterrupt:
            done = sum(result is not None for result in results)
            raise Interrupted(
                f"stopped with {done} of {len(items)} runs finished", batch(_complete(items, results))
            ) from None
        return _complete(items, results)

    def stream(
        self,
        env: Envs,
        outputs: Sequence[str],
        *,
        max_parallel: int | None = None,
        seed: int | None = None,
        ordered: bool = False,
        observers: Sequence[Observer] = (),
    ) -> Iterator[tuple[int, RunResult]]:
        """Yield ``(index, result)`` as runs finish, or in order. Leaving the loop stops what hasn't finished."""
        items = _items(env, outputs, seed)
        results: list[RunResult | None] = [None] * len(items)
        ready: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        watcher = _Indexes(ready.put)

        async def fill() -> None:
            try:
                await self.asynchronous._fill(items, results, max_parallel, None, [*observers, watcher])
            finally:
                ready.put(None)

        task = self._portal().start_task_soon(fill)
        indexes = _Ordered() if ordered else None
        try:
            while (index := ready.get()) is not None:
                for number in indexes.take(index) if indexes else (index,):
                    result = results[number]
                    assert result is not None
                    yield number, result
            task.result()
        finally:
            if not task.done():
                task.cancel()

    def _portal(self) -> BlockingPortal:
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
            return self._loop.portal

    def _call(self, make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        async def call() -> _T:
            return await make()

        future = self._portal().start_task_soon(call)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            self._portal().call(anyio.sleep, 0)
            _settle(future)
            raise

    def close(self) -> None:
        """End the sandboxes and the client's thread. The client starts anew if it is used again."""
        if self._pid != os.getpid():
            return self._reset()
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.portal.call(self.asynchronous.close)
            loop.stop()

    def __enter__(self) -> DeepGym:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _settle(future: Any) -> None:
    """Wait for a cancelled call to clean up after itself."""
    from concurrent.futures import wait

    wait([future], timeout=15.0)


class _Loop:
    """An event loop in a daemon thread, and the portal into it."""

    def __init__(self) -> None:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="deepgym", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        from anyio.from_thread import BlockingPortal

        async def main() -> None:
            async with BlockingPortal() as self.portal:
                started.set()
                await self.portal.sleep_until_stopped()

        anyio.run(main)

    def stop(self) -> None:
        self.portal.call(self.portal.stop)
        self._thread.join(10.0)


class _Indexes:
    """An observer that passes on which runs are over."""

    def __init__(self, put: Callable[[int], object]) -> None:
        self._put = put

    def on_phase(self, index: int, phase: Phase) -> None:
        pass

    def on_result(self, index: int, result: RunResult) -> None:
        self._put(index)


class _Ordered:
    """Holds indexes back until all before them are there."""

    def __init__(self) -> None:
        self._next = 0
        self._held: set[int] = set()

    def take(self, index: int) -> Iterable[int]:
        self._held.add(index)
        while self._next in self._held:
            self._held.remove(self._next)
            yield self._next
            self._next += 1


def _evaluated(name: str, items: Sequence[Item], results: Sequence[RunResult | None]) -> EvalResult:
    return EvalResult(
        suite=name, results=_complete(items, results), env_names=tuple(item.env.name for item in items)
    )


def _provider(mode: str, options: dict[str, Any]) -> Provider:
    if mode == "local":
        from deepgym.providers.local import LocalProvider

        return LocalProvider(**options)
    from deepgym.plugins import load_provider

    return load_provider(mode)(**options)
