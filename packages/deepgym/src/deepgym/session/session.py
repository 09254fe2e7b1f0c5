"""One episode: a sandbox that stays open while an agent acts in it, and the verdict on what it leaves."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, NoReturn

import anyio

from deepgym.contract.evidence import Evidence, Failure
from deepgym.contract.verdict import judge
from deepgym.environments.environment import Environment
from deepgym.environments.multi_turn import MultiTurnEnvironment
from deepgym.environments.tools import read_call, tool_schemas
from deepgym.exceptions import SandboxError, SessionError, SupervisorError, TimeoutError, VerifierError
from deepgym.models import RunResult
from deepgym.providers.base import Act, Ran, Workspace
from deepgym.running.batch import Item, seeds_for
from deepgym.running.outcome import result_or_raise
from deepgym.running.schedule import ATTEMPTS, Schedule, Ticket, failure_of

from .failures import failure_result
from .opening import SetupError, furnish, host
from .records import Ended, Observation
from .views import act_for, observation, with_remarks

__all__ = ["AsyncSession"]

_log = logging.getLogger(__name__)
#: Seconds that closing a sandbox may take.
_CLOSING = 30.0
_ENDS: dict[str, str] = {
    "steps": "the episode's last step is used up",
    "time": "the time for the episode's actions is used up",
}


class AsyncSession:
    """One agent's place in one environment; made by ``AsyncDeepGym.session``.

    Use it as an async context manager. What the agent does never raises: it is observed, and judged. Where
    our side fails, the call raises and the episode has no verdict.
    """

    def __init__(self, schedule: Schedule, env: MultiTurnEnvironment, seed: int | None = None) -> None:
        self.env = env
        self.tools: list[dict[str, Any]] = tool_schemas(env.tools)
        """JSON schemas of the tools, as chat templates take them."""
        self._schedule = schedule
        self._chosen = env.seed if seed is None else seed
        self._closed = False
        self._workspace: Workspace | None = None
        self._turn = anyio.Lock()
        self._clear()

    def _clear(self) -> None:
        self.seed = self._chosen
        self.id: str | None = None
        """The sandbox's id, once there is one."""
        self.ended: Ended | None = None
        """Why the episode is over; ``None`` while it goes on."""
        self.steps = 0
        self.agent_seconds = 0.0
        """That the agent's own actions took."""
        self.result: RunResult | None = None
        """The verdict, once there is one."""
        self._began = self._over = 0.0
        self._acted = False
        self._tree: bytes | None = None
        self._failure: SandboxError | None = None

    @property
    def done(self) -> bool:
        """Whether the episode is over, so that nothing but ``score`` or ``reset`` can follow."""
        return self.ended is not None

    @property
    def session_seconds(self) -> float:
        """From ``reset`` to now, or to the end of the episode."""
        return (self._over or time.monotonic()) - self._began if self._began else 0.0

    async def reset(self, seed: int | None = None) -> Observation:
        """Begin an episode in a fresh sandbox; one that goes on is given up.

        Returns what the agent is asked.

        Raises:
            ValueError: ``seed`` isn't one; an episode that goes on isn't touched.
            SandboxError: no sandbox could be had or set up: ours, tried a few times; ``result`` is attached.
            SessionError: the session is closed.
        """
        async with self._turn:
            return await self._reset(seed)

    async def _reset(self, seed: int | None) -> Observation:
        await self._check_open()
        (number,) = seeds_for(seed, 1)
        if number is not None:
            self._chosen = number
        await self._leave()
        self._clear()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._open()
                break
            except BaseException as error:  # noqa: BLE001 - the judge's boundary
                await self._leave()
                if attempt == ATTEMPTS or isinstance(error, SetupError) or not isinstance(error, Exception):
                    await self._ours(error)
            await anyio.sleep(0.05 * attempt)
        await self._check_open()
        self._began = time.monotonic()
        return Observation(text=self.env.task)

    async def _check_open(self) -> None:
        if self._closed:
            await self._leave()
            raise SessionError("this session is closed; open another with session(env)")

    async def _open(self) -> None:
        workspace = self._workspace = await host(self._schedule.provider, self.env)
        self.id = workspace.id
        await furnish(workspace, self.env, self.seed)

    async def step(self, action: object) -> Observation:
        """Do what the agent wants: a ``ToolCall``, a mapping such as an OpenAI tool call, or text for bash.

        An action that is no valid call is told the agent as an observation, and counts as a step.

        Raises:
            SandboxError: our side failed; the episode has no verdict, and ``result`` says so.
            SessionError: there is no episode, or it is over.
        """
        async with self._turn:
            return await self._step(action)

    async def _step(self, action: object) -> Observation:
        workspace = self._running()
        call, wrong = read_call(action, self.env.tools)
        self.steps += 1
        if wrong is not None:
            return self._seen(Observation(text=wrong, invalid=True))
        if call.name == "submit":
            self._end("submitted")
            return Observation(text="The episode is over.", done=True, ended="submitted")
        left = self.env.limits.actions - self.agent_seconds
        act = act_for(call, self.env.limits, left)
        try:
            ran, tree = await self._act(workspace, act)
        except BaseException as error:  # noqa: BLE001 - the judge's boundary
            return await self._broken(error)
        try:
            seen = observation(call, ran, act.seconds)
            if tree is not None:
                judged = judge(await self._evidence(tree, of_step=True))
                seen = seen.model_copy(update={"result": judged})
        except BaseException as error:  # noqa: BLE001 - nothing of the agent's can raise here
            await self._ours(error)
        return self._seen(seen)

    async def _act(self, workspace: Workspace, act: Act) -> tuple[Ran, bytes | None]:
        """Have it done; for a step verifier, with what the work directory then is."""
        began, self._acted = time.monotonic(), True
        try:
            ran = await workspace.act(act)
        except BaseException:
            # Without what it waited for a turn, as far as that can be told.
            self.agent_seconds += min(time.monotonic() - began, act.seconds)
            raise
        self.agent_seconds += ran.seconds
        stepwise = self.env.step_verify is not None
        return ran, await self._copy(workspace, last=False) if stepwise else None

    def _seen(self, seen: Observation) -> Observation:
        """What the agent is shown, with the end of the episode where a limit is met."""
        limits = self.env.limits
        ended: Ended | None = None
        if self.agent_seconds >= limits.actions:
            ended = "time"
        elif self.steps >= limits.steps:
            ended = "steps"
        if ended is None:
            return seen
        self._end(ended)
        text = with_remarks(seen.text, [_ENDS[ended]])
        return seen.model_copy(update={"text": text, "done": True, "ended": ended})

    async def score(self) -> RunResult:
        """End the episode and have the final verifier judge a frozen copy of the work directory.

        The agent's processes are gone before anything is read. Once there is a verdict, it stays.

        Raises:
            SandboxError, TimeoutError, VerifierError: where ``run`` does: no verdict, ``result`` attached.
                Called again, it tries again, unless the episode itself was lost.
            SessionError: there was no episode.
        """
        async with self._turn:
            return await self._score()

    async def _score(self) -> RunResult:
        if self.result is not None:
            return self.result
        if self._failure is not None:
            raise self._failure
        if self._tree is None:
            if self._workspace is None:
                raise SessionError(f"there is no episode to score; {self._remedy()}")
            try:
                self._tree = await self._copy(self._workspace, last=True)
            except BaseException as error:  # noqa: BLE001 - the judge's boundary
                await self._broken(error)
                return self._verdict()
            self._end(self.ended or "submitted")
            await self._leave()
        try:
            result = result_or_raise(await self._evidence(self._tree))
        except (SandboxError, TimeoutError, VerifierError):
            raise
        except Exception as error:
            lost = self._unjudged(error)
            raise SupervisorError(f"{lost.error_type}: {lost.error}", lost) from error
        if result.has_verdict:
            self.result, self._tree = result, None
        return result

    def _verdict(self) -> RunResult:
        assert self.result is not None
        return self.result

    async def _copy(self, workspace: Workspace, *, last: bool) -> bytes:
        limits = self.env.limits
        return await workspace.copy(last=last, room=limits.disk, files=limits.files)

    async def _evidence(self, tree: bytes, of_step: bool = False) -> Evidence:
        env = _judged_as(self.env, of_step)
        evidence = await self._schedule.evidence(Ticket(Item(env, "", self.seed, tree)))
        return evidence.model_copy(update={"env_digest": self.env.digest, "sandbox_id": self.id})

    async def _broken(self, error: BaseException) -> Observation:
        """What ended the sandbox: the agent's 0, which it sees, or ours, which is raised."""
        if not isinstance(error, Exception) or not self._acted:
            await self._ours(error)
        result = failure_result(
            error, self.id, agent_seconds=self.agent_seconds, session_seconds=self.session_seconds
        )
        if not result.has_verdict:
            await self._ours(error, result)
        self.result = self._named(result)
        self._end("sandbox")
        await self._leave()
        return Observation(text=f"The sandbox has ended. {result.error}", done=True, ended="sandbox")

    async def _ours(self, error: BaseException, result: RunResult | None = None) -> NoReturn:
        """The episode is lost, by no fault of the agent's."""
        result = self._unjudged(error) if result is None else self._named(result)
        if isinstance(error, SandboxError):
            error.result = result
            self._failure = error
        else:
            self._failure = SandboxError(f"{result.error_type}: {result.error}", result)
        self._over = time.monotonic()
        await self._leave()
        if self._failure is error or not isinstance(error, Exception):
            raise error
        raise self._failure from error

    def _unjudged(self, error: BaseException) -> RunResult:
        """The result that a failure of ours leaves."""
        stopped = Failure(kind="cancelled", message="the episode was stopped")
        failure = failure_of(error) if isinstance(error, Exception) else stopped
        return self._named(judge(Evidence(failure=failure, sandbox_id=self.id)))

    def _named(self, result: RunResult) -> RunResult:
        about = {"env_name": self.env.name, "env_digest": self.env.digest, "seed": self.seed}
        if self._workspace is not None:
            tier = self._workspace.capabilities
            about.update(isolation=tier.isolation, enforced=tier.enforced)
        return result.model_copy(update=about)

    def _end(self, why: Ended) -> None:
        if self.ended is None:
            self.ended, self._over = why, time.monotonic()

    def _running(self) -> Workspace:
        if self._failure is not None:
            raise self._failure
        if self.ended is not None:
            raise SessionError(f"the episode is over ({self.ended}); call score(), or reset() for another")
        if self._workspace is None:
            raise SessionError(f"there is no episode; {self._remedy()}")
        return self._workspace

    def _remedy(self) -> str:
        return "the session is closed: open another" if self._closed else "call reset() first"

    async def _leave(self) -> None:
        """Close the sandbox. What goes wrong there can't change what the episode was."""
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            # In a task of its own: a shield holds back anyio's cancellations, but not asyncio's of this task.
            async with anyio.create_task_group() as group:
                group.start_soon(_closed, workspace)

    async def close(self) -> None:
        """End the sandbox and all that runs in it. A verdict stays; an unscored episode has none."""
        self._closed = True
        await self._leave()

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


async def _closed(workspace: Workspace) -> None:
    with anyio.move_on_after(_CLOSING, shield=True):
        try:
            await workspace.close()
        except Exception:  # noqa: BLE001 - clean-up never changes a verdict
            _log.warning("closing sandbox %s failed", workspace.id, exc_info=True)


@functools.lru_cache(maxsize=256)
def _judged_as(env: MultiTurnEnvironment, of_step: bool) -> Environment:
    """The environment as which what an agent left is judged."""
    program = env.step_verify if of_step else env.verify
    assert program is not None
    return Environment(name=env.name, task=env.task, verify=program, limits=env.verify_limits, loopback=True)
