"""``Session``: ``AsyncSession`` for code that isn't async."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from deepgym.exceptions import SandboxError

if TYPE_CHECKING:
    from deepgym.client.synchronous import DeepGym
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.models import RunResult
    from deepgym.session import AsyncSession
    from deepgym.session.records import Ended, Observation

__all__ = ["Session"]

_T = TypeVar("_T")


class Session:
    """See ``AsyncSession``; the same calls, results and errors. Made by ``DeepGym.session``."""

    def __init__(self, client: DeepGym, session: AsyncSession) -> None:
        self._client, self.asynchronous = client, session

    @property
    def env(self) -> MultiTurnEnvironment:
        """The environment."""
        return self.asynchronous.env

    @property
    def tools(self) -> list[dict[str, Any]]:
        """JSON schemas of the tools, as chat templates take them."""
        return self.asynchronous.tools

    @property
    def id(self) -> str | None:
        """The sandbox's id, once there is one."""
        return self.asynchronous.id

    @property
    def seed(self) -> int:
        """Of the set-up and the verifier."""
        return self.asynchronous.seed

    @property
    def done(self) -> bool:
        """Whether the episode is over, so that nothing but ``score`` or ``reset`` can follow."""
        return self.asynchronous.done

    @property
    def ended(self) -> Ended | None:
        """Why the episode is over; ``None`` while it goes on."""
        return self.asynchronous.ended

    @property
    def steps(self) -> int:
        """Steps of this episode."""
        return self.asynchronous.steps

    @property
    def agent_seconds(self) -> float:
        """That the agent's own actions took."""
        return self.asynchronous.agent_seconds

    @property
    def session_seconds(self) -> float:
        """From ``reset`` to now, or to the end of the episode."""
        return self.asynchronous.session_seconds

    @property
    def result(self) -> RunResult | None:
        """The verdict, once there is one."""
        return self.asynchronous.result

    def reset(self, seed: int | None = None) -> Observation:
        """See ``AsyncSession.reset``."""
        return self._call(lambda: self.asynchronous.reset(seed))

    def step(self, action: object) -> Observation:
        """See ``AsyncSession.step``."""
        return self._call(lambda: self.asynchronous.step(action))

    def score(self) -> RunResult:
        """See ``AsyncSession.score``."""
        return self._call(self.asynchronous.score)

    def close(self) -> None:
        """See ``AsyncSession.close``."""
        self._call(self.asynchronous.close)

    def _call(self, make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        try:
            return self._client._call(make)
        except CancelledError:
            raise SandboxError("the client was closed while the session was in use") from None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
