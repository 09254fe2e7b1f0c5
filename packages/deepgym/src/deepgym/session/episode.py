"""An episode from reset to score: an agent plays in a session, and a trajectory is left.

What the agent raises before its first action is its programmer's to see; after it, the contract's rule
decides (``failure_result``). What fails on our side before its first action is never the agent's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio

from deepgym.bounded import MAX_LINE, clean
from deepgym.exceptions import (
    DeepGymError,
    NetworkError,
    NoVerdictError,
    ProviderError,
    SandboxError,
    TimeoutError,
    VerifierError,
    is_infrastructure_failure,
)
from deepgym.models import ErrorType, RunResult
from deepgym.session.agents import Agent, asked, recorded
from deepgym.session.failures import failure_result
from deepgym.session.records import Ended, Observation, Reply, Trajectory, Turn

if TYPE_CHECKING:
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.environments.tools import ToolCall

__all__ = ["OnEpisode", "Playable", "completed", "run_episode", "run_episodes"]

OnEpisode: TypeAlias = Callable[[int, Trajectory], object]

_log = logging.getLogger(__name__)


class Playable(Protocol):
    """What an episode needs of a session."""

    @property
    def env(self) -> MultiTurnEnvironment: ...
    @property
    def seed(self) -> int: ...
    @property
    def tools(self) -> Sequence[dict[str, Any]]: ...
    @property
    def id(self) -> str | None: ...
    @property
    def done(self) -> bool: ...
    @property
    def ended(self) -> Ended | None: ...
    @property
    def agent_seconds(self) -> float: ...
    @property
    def session_seconds(self) -> float: ...
    async def reset(self) -> Observation: ...
    async def step(self, action: Any, /) -> Observation: ...
    async def score(self) -> RunResult: ...
    async def close(self) -> None: ...


async def run_episode(
    session: Playable | Callable[[], Playable], agent: Agent, *, metadata: Mapping[str, Any] | None = None
) -> Trajectory:
    """Play one episode and have it scored.

    It ends when the session is done, or when the agent makes no call. The trajectory's ``result`` is always
    set; it has no verdict where our side failed, the infrastructure that the agent needs included.

    Args:
        session: One to use, which stays open for its owner; or a function that makes one, which is closed.
        agent: What acts. Whatever it returns is an action; one that is no call is told so.
        metadata: Put into the trajectory's.

    Raises:
        Exception: what the agent raised before its first action, unless that is an infrastructure failure.
        DeepGymError: the session can't be used so (it was closed, ...).
    """
    if callable(session):
        return await _closing(session(), agent, metadata)
    try:
        return await _Episode(session, agent, metadata).play()
    except BaseException:
        await _close(session)
        raise


async def run_episodes(
    sessions: Sequence[Playable],
    agent: Agent,
    *,
    max_parallel: int = 8,
    on_episode: OnEpisode | None = None,
    results: list[Trajectory | None] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[Trajectory]:
    """Play an episode in each of several unopened sessions, which are closed. Trajectory ``i`` is of
    session ``i``.

    Args:
        sessions: Each is opened when its turn comes.
        agent: Plays them all, ``max_parallel`` at a time.
        on_episode: Told ``(index, trajectory)`` as each ends, on the event loop. What it raises is logged.
        results: A list with ``None`` for each session, filled as they end; ``completed`` makes it whole if
            the call is cancelled.
        metadata: Put into each trajectory's.

    Raises:
        Exception: what ``run_episode`` raises, from the first that does; the others are cancelled.
    """
    if max_parallel < 1:
        raise ValueError(f"max_parallel={max_parallel}: at least one episode must be allowed")
    found: list[Trajectory | None] = [None] * len(sessions) if results is None else results
    queue = iter(range(len(sessions)))
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def worker() -> None:
            for index in queue:
                try:
                    trajectory = await _closing(sessions[index], agent, metadata)
                except Exception as failure:  # noqa: BLE001 - raised out of the group, which would wrap it
                    failures.append(failure)
                    return group.cancel_scope.cancel()
                found[index] = trajectory
                _tell(on_episode, index, trajectory)

        for _ in range(min(max_parallel, len(sessions))):
            group.start_soon(worker)
    if failures:
        raise failures[0]
    return completed(sessions, found)


def completed(sessions: Sequence[Playable], results: Sequence[Trajectory | None]) -> list[Trajectory]:
    """Every trajectory; those that are missing, because all were stopped, without a verdict."""
    message = "stopped before the episode was over"
    stopped = RunResult(score=0.0, error_type="cancelled", error=message)
    return [
        _begun(session).model_copy(update={"result": _named(stopped, session), "error": message})
        if trajectory is None
        else trajectory
        for session, trajectory in zip(sessions, results, strict=True)
    ]


def _tell(on_episode: OnEpisode | None, index: int, trajectory: Trajectory) -> None:
    if on_episode is None:
        return
    try:
        on_episode(index, trajectory)
    except Exception:  # noqa: BLE001 - a watcher's failure is not the episode's
        _log.warning("on_episode %r failed", on_episode, exc_info=True)


async def _closing(session: Playable, agent: Agent, metadata: Mapping[str, Any] | None) -> Trajectory:
    try:
        return await _Episode(session, agent, metadata).play()
    finally:
        await _close(session)


async def _close(session: Playable) -> None:
    with anyio.CancelScope(shield=True):
        try:
            await session.close()
        except Exception:  # noqa: BLE001 - clean-up never changes a verdict, nor hides what was raised
            _log.warning("a session of %s wasn't closed cleanly", session.env.name, exc_info=True)


class _Episode:
    """One episode under way."""

    def __init__(self, session: Playable, agent: Agent, metadata: Mapping[str, Any] | None) -> None:
        self._session = session
        self._agent = agent
        self._acted = False
        self._trajectory = _begun(session, metadata)

    async def play(self) -> Trajectory:
        try:
            first = await self._session.reset()
        except Exception as failure:  # noqa: BLE001 - here and below: a result says what became of it
            return self._session_failed(failure)
        self._note(task=first.text, sandbox_id=self._session.id)
        while not self._session.done:
            try:
                answer = await asked(self._agent, self._trajectory)
            except Exception as failure:  # noqa: BLE001
                return self._agent_failed(failure)
            try:
                if not await self._turn(answer):
                    break
            except Exception as failure:  # noqa: BLE001
                return self._session_failed(failure)
        return await self._scored()

    async def _turn(self, answer: Reply | Sequence[object]) -> bool:
        """Whether the agent made any call."""
        reply = answer if isinstance(answer, Reply) else Reply()
        calls: list[ToolCall] = []
        seen: list[Observation] = []
        try:
            for given in answer.calls if isinstance(answer, Reply) else answer:
                call, action = recorded(given, self._session.env.tools)
                calls.append(call)
                self._acted = True
                seen.append(await self._session.step(action))
                if self._session.done:
                    break
        finally:
            if calls or reply.message is not None:
                self._remember(tuple(calls), tuple(seen), reply)
        return bool(calls)

    def _remember(self, calls: tuple[ToolCall, ...], seen: tuple[Observation, ...], reply: Reply) -> None:
        turn = Turn(calls=calls, observations=seen, message=reply.message, metadata=reply.metadata)
        so_far = self._trajectory
        self._note(turns=(*so_far.turns, turn), metadata=_summed(so_far.metadata, reply.metadata))

    async def _scored(self) -> Trajectory:
        try:
            result = await self._session.score()
        except Exception as failure:  # noqa: BLE001
            return self._session_failed(failure)
        ended = self._session.ended or "submitted"
        return self._over(result, ended, result.error if ended == "sandbox" else None)

    def _session_failed(self, failure: Exception) -> Trajectory:
        if isinstance(failure, DeepGymError) and not isinstance(failure, _ABOUT_A_RUN):
            raise failure
        result = getattr(failure, "result", None)
        if not isinstance(result, RunResult):
            result = self._ruled(failure)
        return self._over(result, self._session.ended, _text(failure))

    def _agent_failed(self, failure: Exception) -> Trajectory:
        if not self._acted and not is_infrastructure_failure(failure):
            raise failure
        result = self._ruled(failure)
        return self._over(result, "agent" if result.has_verdict else None, _text(failure))

    def _ruled(self, failure: Exception) -> RunResult:
        if not self._acted:
            return _unjudged(failure)
        of, within = self._session.agent_seconds, self._session.session_seconds
        return failure_result(failure, self._session.id, agent_seconds=of, session_seconds=within)

    def _over(self, result: RunResult, ended: Ended | None, error: str | None) -> Trajectory:
        self._note(result=_named(result, self._session), ended=ended, error=error)
        return self._trajectory

    def _note(self, **fields: Any) -> None:
        fields["agent_seconds"] = self._session.agent_seconds
        fields["session_seconds"] = self._session.session_seconds
        self._trajectory = self._trajectory.model_copy(update=fields)


def _begun(session: Playable, metadata: Mapping[str, Any] | None = None) -> Trajectory:
    env = session.env
    return Trajectory(
        env_name=env.name,
        env_digest=env.digest,
        task=env.task,
        tools=tuple(session.tools),
        seed=session.seed,
        metadata=dict(metadata or {}),
    )


def _named(result: RunResult, session: Playable) -> RunResult:
    if result.env_name:
        return result
    env = session.env
    named = {"env_name": env.name, "env_digest": env.digest, "seed": session.seed, "sandbox_id": session.id}
    return result.model_copy(update=named)


def _summed(metadata: dict[str, Any], turn: dict[str, Any]) -> dict[str, Any]:
    total, more = metadata.get("usage", {}), turn.get("usage")
    if not isinstance(total, dict) or not isinstance(more, dict):
        return metadata
    counts = {key: (total.get(key, 0), count) for key, count in more.items()}
    sums = {key: sum(pair) for key, pair in counts.items() if all(isinstance(one, int) for one in pair)}
    return {**metadata, "usage": {**total, **sums}}


_ABOUT_A_RUN = (SandboxError, TimeoutError, VerifierError, NoVerdictError)
_TYPES: dict[type[Exception], ErrorType] = {
    NetworkError: "network_error",
    ProviderError: "provider_error",
    SandboxError: "sandbox_error",
    TimeoutError: "timeout",
    VerifierError: "verifier_error",
}


def _unjudged(failure: Exception) -> RunResult:
    """Nothing of the agent's was in play, so this can't be its doing."""
    found = next((_TYPES[kind] for kind in _TYPES if isinstance(failure, kind)), None)
    if found is None:
        found = "provider_error" if is_infrastructure_failure(failure) else "sandbox_error"
    return RunResult(score=0.0, error_type=found, error=_text(failure))


def _text(failure: Exception) -> str:
    name = type(failure).__name__.lstrip("_")
    try:
        return clean(f"{name}: {failure}", MAX_LINE)
    except Exception:  # noqa: BLE001 - the text of a foreign exception is its own code
        return name
