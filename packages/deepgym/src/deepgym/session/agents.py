"""What plays an episode: a function of the episode so far, and whatever it may answer with."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
import anyio.to_thread
from pydantic import TypeAdapter

from deepgym.bounded import Details, clean
from deepgym.environments.tools import ToolCall, read_call
from deepgym.session.records import Reply, Trajectory

if TYPE_CHECKING:
    from deepgym.environments.multi_turn import MultiTurnEnvironment

__all__ = ["Action", "Agent", "ScriptedAgent", "asked", "recorded"]

_Call: TypeAlias = ToolCall | Mapping[str, Any] | str
Action: TypeAlias = _Call | Sequence[_Call] | Reply | None
"""A call, text (a command for ``bash``), several calls, or ``None``: the work is ready to be graded."""
Agent: TypeAlias = Callable[[Trajectory], Action | Awaitable[Action]]
"""What acts next, from the episode so far. A function that isn't async runs in a thread."""

_details = TypeAdapter(Details)


@dataclass(frozen=True)
class ScriptedAgent:
    """Makes the same calls in every episode, one a turn, and then no more."""

    calls: tuple[ToolCall, ...]

    async def __call__(self, trajectory: Trajectory) -> Action:
        made = sum(len(turn.calls) for turn in trajectory.turns)
        return self.calls[made] if made < len(self.calls) else None

    @classmethod
    def reference(cls, env: MultiTurnEnvironment) -> ScriptedAgent:
        """The agent that plays the environment's reference.

        Raises:
            ValueError: it has none.
        """
        if env.reference is None:
            raise ValueError(f"{env.name} has no reference")
        return cls(env.reference)


async def asked(agent: Agent, trajectory: Trajectory) -> Reply | Sequence[object]:
    """What the agent answers: the calls it makes, none if it is done. Raises what the agent raises."""
    if inspect.iscoroutinefunction(agent) or inspect.iscoroutinefunction(type(agent).__call__):
        answer = await cast("Awaitable[object]", agent(trajectory))
    else:
        answer = await _in_a_thread(agent, trajectory)
    if answer is None:
        return ()
    return answer if isinstance(answer, (Reply, list, tuple)) else (answer,)


async def _in_a_thread(agent: Agent, trajectory: Trajectory) -> object:
    # A limiter of its own: agents that think long mustn't keep each other, or anything else, waiting. In a
    # tuple, for trio refuses a thread's coroutine.
    limiter = anyio.CapacityLimiter(1)
    (answer,) = await anyio.to_thread.run_sync(
        lambda: (agent(trajectory),), abandon_on_cancel=True, limiter=limiter
    )
    return await answer if inspect.isawaitable(answer) else answer


def recorded(action: object, tools: Sequence[str]) -> tuple[ToolCall, object]:
    """The call as a trajectory can hold it, and the action as a session can take it. Never raises.

    An action that breaks whoever looks at it is replaced by one that is merely invalid.
    """
    try:
        call, _ = read_call(action, tools)
        arguments = _details.validate_python(call.arguments)
        return ToolCall(name=clean(call.name, 200), arguments=arguments), action
    except Exception:  # noqa: BLE001 - it is whatever an agent made, methods that raise included
        return ToolCall(name="invalid"), object()
