"""One episode that a trainer plays: opened while the model begins to write, acted in, graded once."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deepgym.contract.evidence import Failure
from deepgym.environments import MultiTurnEnvironment
from deepgym.integrations.episodes import grading_seconds, unjudged
from deepgym.models import RunResult
from deepgym.running.schedule import failure_of

from .episodes_calls import Closer, OverdueError, Patience, Pending

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.client.session import Session

__all__ = ["OVER", "UNAVAILABLE", "Episode"]

#: What a policy reads where our side failed: nothing about why.
UNAVAILABLE = "The tool is not available right now."
OVER = "The episode is over. The work directory is graded as it stands."


class Episode:
    """Never raises for what the infrastructure or the policy does. ``result`` is there once it is certain.

    A failure of ours is latched: each further tool call is answered with ``UNAVAILABLE``, and the result has
    no verdict. What takes longer than its own limits and ``patience`` hangs on our side.
    """

    def __init__(
        self, client: DeepGym, env: MultiTurnEnvironment, closer: Closer, patience: Patience
    ) -> None:
        self.client, self.env = client, env
        self.result: RunResult | None = None
        self._patience = patience
        self._lock = threading.Lock()
        self._opening_seconds = 2 * env.limits.setup + patience.seconds
        self._began = time.monotonic()
        self._session: Session = client.session(env)
        self._close: weakref.finalize[..., object] = closer.watch(self, self._session)
        self._opening: Pending[None] | None = None
        try:
            self._opening = Pending(functools.partial(_open, self._session, patience))
        except Exception as failure:  # noqa: BLE001 - the adapter's edge, here and below
            self._lose(failure)

    def act(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What the policy is shown of a call of a tool."""
        if self.result is not None:
            return OVER if self.result.has_verdict else UNAVAILABLE
        session, call = self._session, {"name": name, "arguments": dict(arguments)}
        limits = self.env.limits
        seconds = limits.step + self._patience.seconds
        if self.env.step_verify is not None:
            seconds += grading_seconds(self.env)
        try:
            self._await_opening()
            if session.done:
                return OVER
            late = f"a step wasn't over after {seconds:.0f} s, of which its own limit is {limits.step:g} s"
            return self._patience.result(Pending(lambda: session.step(call)), seconds, late).text
        except Exception as failure:  # noqa: BLE001
            self._lose(failure)
            return UNAVAILABLE

    def grade(self) -> None:
        """Have what the policy left judged, if nothing is certain yet. Blocks until there is a ``result``."""
        if self.result is None:
            try:
                self._await_opening()
                self._settle(self._session.score())
            except Exception as failure:  # noqa: BLE001
                self._lose(failure)
        self.close()

    @property
    def grading_patience(self) -> float:
        """Seconds after which a grading that isn't over hangs on our side."""
        return grading_seconds(self.env) + self._patience.full

    def give_up(self, kind: str, message: str) -> RunResult:
        """The result; without a verdict if there was none so far."""
        return self._settle(self._unjudged(Failure.model_validate({"kind": kind, "message": message})))

    def hang(self, message: str) -> None:
        """Give it up because of a call that didn't end in time."""
        self._patience.hung()
        self.give_up("provider", message)

    def close(self) -> None:
        """End its sandbox, in the background. An ungraded episode has no verdict then."""
        self._close()

    def _await_opening(self) -> None:
        if self._opening is None:
            raise RuntimeError("the session was never opened")
        if not self._opening.future.done():
            self._patience.result(self._opening, self._opening_seconds, self._unopened(), self._began)
        self._opening.future.result()

    def _unopened(self) -> str:
        room = getattr(self.client.provider, "max_sessions", None)
        hint = f"; the client has room for max_sessions={room} at once" if room else ""
        return f"no sandbox was open after {self._opening_seconds:.0f} s{hint}"

    def _lose(self, failure: Exception) -> None:
        """The session's own errors have been judged by the contract's rule already: they are ours."""
        found = getattr(failure, "result", None)
        if isinstance(found, RunResult) and not found.has_verdict:
            result = found
        elif isinstance(failure, OverdueError):
            result = self._unjudged(Failure(kind="provider", message=str(failure)))
        else:
            result = self._unjudged(failure_of(failure))
        self._settle(result)
        self.close()

    def _settle(self, result: RunResult) -> RunResult:
        with self._lock:
            if self.result is None:
                self.result = result
            return self.result

    def _unjudged(self, failure: Failure) -> RunResult:
        return unjudged(failure, self.env, self._session)


def _open(session: Session, patience: Patience) -> None:
    session.reset()
    patience.alive()
