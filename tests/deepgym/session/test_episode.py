from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from deepgym.environments import MultiTurnEnvironment, Program, ToolCall
from deepgym.environments.tools import read_call, tool_schemas
from deepgym.exceptions import (
    NetworkError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    SandboxExpiredError,
    SessionError,
    TimeoutError,
    VerifierError,
)
from deepgym.models import RunResult
from deepgym.session.agents import ScriptedAgent
from deepgym.session.episode import completed, run_episode, run_episodes
from deepgym.session.records import Ended, Observation, Reply, Trajectory

pytestmark = pytest.mark.anyio

ENV = MultiTurnEnvironment(
    name="folder",
    task="Make the file done.",
    verify=Program(source="def verify(work): return work.exists('done')"),
    reference=(ToolCall(name="bash", arguments={"command": "touch done"}), ToolCall(name="submit")),
)
PASSED = RunResult(score=1.0, passed=True, env_name="folder")
LS = {"name": "bash", "arguments": {"command": "ls"}}


class Session:
    """What a real one does, as far as an episode sees it, without a sandbox. ``raises`` says where it fails."""

    def __init__(
        self, *, steps: int = 20, raises: dict[str, Exception] | None = None, env: Any = ENV
    ) -> None:
        self.env = env
        self.seed = 7
        self.tools = tool_schemas(env.tools)
        self.id: str | None = None
        self.ended: Ended | None = None
        self.agent_seconds = 1.0
        self.session_seconds = 100.0
        self.actions: list[Any] = []
        self.scored = 0
        self.closed = 0
        self._steps = steps
        self._raises = raises or {}

    @property
    def done(self) -> bool:
        return self.ended is not None

    def _fail(self, where: str) -> None:
        if where in self._raises:
            raise self._raises[where]

    async def reset(self) -> Observation:
        self._fail("reset")
        self.id = "box-1"
        return Observation(text=self.env.task)

    async def step(self, action: Any, /) -> Observation:
        assert not self.done
        self.actions.append(action)
        self._fail(f"step {len(self.actions)}")
        call, wrong = read_call(action, self.env.tools)
        if wrong is None and call.name == "submit":
            self.ended = "submitted"
        elif wrong is None and call.arguments.get("command") == "kill -9 1":
            self.ended = "sandbox"
        elif len(self.actions) >= self._steps:
            self.ended = "steps"
        text = wrong if wrong is not None else f"ran {call.name}"
        return Observation(text=text, invalid=wrong is not None, done=self.done, ended=self.ended)

    async def score(self) -> RunResult:
        self.scored += 1
        self._fail("score")
        if self.ended == "sandbox":
            return RunResult(score=0.0, error_type="policy_sandbox_failure", error="it was killed")
        return PASSED

    async def close(self) -> None:
        self.closed += 1
        self._fail("close")


def says(*actions: Any) -> Callable[[Trajectory], Any]:
    """An agent that gives these actions, one a turn; an exception among them is raised."""

    async def agent(trajectory: Trajectory) -> Any:
        turn = len(trajectory.turns)
        action = actions[turn] if turn < len(actions) else None
        if isinstance(action, BaseException):
            raise action
        return action

    return agent


def result_of(trajectory: Trajectory) -> RunResult:
    assert trajectory.result is not None
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    return trajectory.result


# actions


@pytest.mark.parametrize(
    "action",
    [
        LS,
        ToolCall(name="bash", arguments={"command": "ls"}),
        {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
        "ls",
        [LS],
        (LS,),
        Reply(calls=(LS,)),
        Reply(calls=("ls",), message={"role": "assistant", "content": "Looking."}),
    ],
)
async def test_every_form_of_an_action_is_run_and_recorded_as_a_call(action: Any) -> None:
    session = Session()
    trajectory = await run_episode(session, says(action))
    (turn,) = trajectory.turns
    assert turn.calls == (ToolCall(name="bash", arguments={"command": "ls"}),)
    assert turn.observations[0].text == "ran bash"
    assert result_of(trajectory) == PASSED
    assert (trajectory.ended, trajectory.error, trajectory.sandbox_id) == ("submitted", None, "box-1")
    assert (trajectory.env_name, trajectory.seed, trajectory.task) == ("folder", 7, "Make the file done.")
    assert (trajectory.agent_seconds, trajectory.session_seconds) == (1.0, 100.0)


@pytest.mark.parametrize("nothing", [None, [], (), Reply()])
async def test_an_agent_that_makes_no_call_has_its_work_graded_as_it_stands(nothing: Any) -> None:
    session = Session()
    trajectory = await run_episode(session, says(nothing))
    assert (session.scored, trajectory.ended, trajectory.turns) == (1, "submitted", ())
    assert result_of(trajectory).passed


async def test_a_last_message_without_a_call_is_a_turn() -> None:
    message = {"role": "assistant", "content": "Done."}
    trajectory = await run_episode(Session(), says("ls", Reply(message=message)))
    assert [turn.message for turn in trajectory.turns] == [None, message]
    assert trajectory.turns[1].calls == ()


async def test_the_end_of_the_episode_keeps_the_rest_of_a_reply_from_being_run() -> None:
    session = Session()
    trajectory = await run_episode(session, says(["ls", {"name": "submit"}, "rm -r ."]))
    assert len(session.actions) == 2
    assert [call.name for call in trajectory.turns[0].calls] == ["bash", "submit"]
    assert len(trajectory.turns[0].observations) == 2


async def test_a_submission_ends_the_episode_without_asking_again() -> None:
    asked: list[int] = []

    async def agent(trajectory: Trajectory) -> Any:
        asked.append(len(trajectory.turns))
        return {"name": "submit"}

    trajectory = await run_episode(Session(), agent)
    assert (asked, trajectory.ended) == ([0], "submitted")


class Hostile(dict[str, Any]):
    def get(self, *args: Any) -> Any:
        raise RuntimeError("no")


def nested() -> dict[str, Any]:
    top: dict[str, Any] = {}
    inner = top
    for _ in range(5000):
        inner["a"] = inner = {}
    return top


@pytest.mark.parametrize(
    "garbage",
    [
        42,
        b"ls",
        object(),
        float("nan"),
        {},
        Hostile(name="bash"),
        {"name": None},
        {"name": "bash"},
        {"name": "bash", "arguments": "{nope"},
        {"name": "bash", "arguments": {"command": object()}},
        {"name": "bash", "arguments": {"command": math.nan, 3: {4}}},
        {"name": "bash", "arguments": nested()},
        {"name": "\ud800", "arguments": {"\udfff": "\ud800"}},
        {"name": "bash", "arguments": {"command": "\ud800"}},
        ToolCall(name="bash", arguments={"command": object()}),
        ToolCall(name="x" * 10_000),
        [[]],
        [None],
        {"name": "bash", "arguments": {"command": "a" * (1 << 21)}},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_garbage_is_an_invalid_action_and_only_ends_at_the_step_limit(garbage: Any) -> None:
    session = Session(steps=3)
    trajectory = await run_episode(session, says(*[garbage] * 10))
    assert (trajectory.ended, len(trajectory.turns), session.scored) == ("steps", 3, 1)
    assert all(turn.observations[0].invalid for turn in trajectory.turns)
    assert result_of(trajectory) == PASSED


async def test_a_sandbox_that_the_agent_broke_is_its_zero_and_says_why() -> None:
    trajectory = await run_episode(Session(), says("kill -9 1", "ls"))
    assert trajectory.ended == "sandbox"
    assert trajectory.error == "it was killed"
    assert result_of(trajectory).reward == 0.0


# kinds of agents


async def test_a_plain_function_runs_in_a_thread_and_so_holds_nothing_up() -> None:
    here = threading.get_ident()
    released = threading.Event()
    threads: list[int] = []

    def agent(trajectory: Trajectory) -> str | None:
        threads.append(threading.get_ident())
        assert released.wait(30)
        return "ls" if not trajectory.turns else None

    async def release() -> None:
        while not threads:
            await anyio.sleep(0.001)
        released.set()

    async with anyio.create_task_group() as group:
        group.start_soon(release)
        trajectory = await run_episode(Session(), agent)
    assert len(trajectory.turns) == 1
    assert here not in threads


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    agent = says("ls")
    trajectory = await run_episode(Session(), lambda so_far: agent(so_far))
    assert len(trajectory.turns) == 1


async def test_an_object_with_an_async_call_is_an_agent() -> None:
    trajectory = await run_episode(Session(), ScriptedAgent.reference(ENV))
    assert [call.name for turn in trajectory.turns for call in turn.calls] == ["bash", "submit"]


async def test_a_script_makes_its_calls_and_no_more() -> None:
    session = Session()
    agent = ScriptedAgent((ToolCall(name="bash", arguments={"command": "ls"}),) * 2)
    await run_episode(session, agent)
    assert len(session.actions) == 2


async def test_a_script_for_an_environment_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="folder has no reference"):
        ScriptedAgent.reference(ENV.model_copy(update={"reference": None}))


async def test_the_script_that_runs_out_is_an_exception_of_the_agent() -> None:
    script = iter(["ls"])
    trajectory = await run_episode(Session(), lambda so_far: next(script))
    assert (trajectory.ended, result_of(trajectory).reward) == ("agent", 0.0)


async def test_usage_is_summed_and_metadata_kept() -> None:
    used = {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "odd": "x", "none": None}, "model": "m"}
    replies = [Reply(calls=("ls",), metadata=used), Reply(calls=("ls",), metadata=used), Reply(metadata=used)]
    trajectory = await run_episode(Session(), says(*replies), metadata={"run": 3})
    # The last reply said nothing and did nothing, so there is no turn of it.
    assert trajectory.metadata == {"run": 3, "usage": {"prompt_tokens": 20, "completion_tokens": 4}}
    assert trajectory.turns[0].metadata == used


async def test_what_json_cannot_hold_is_described_in_the_record() -> None:
    message = {"role": "assistant", "content": "\ud800", "logprob": math.nan, "more": {1, 2}, 5: object()}
    trajectory = await run_episode(
        Session(), says(Reply(calls=("ls",), message=message)), metadata={"x": {1}}
    )
    assert result_of(trajectory) == PASSED
    assert trajectory.turns[0].message == {
        "role": "assistant",
        "content": "\ufffd",
        "logprob": "nan",
        "more": "<set>",
        "5": "<object>",
    }


# failures of our side


UNJUDGED = RunResult(score=0.0, error_type="network_error", error="the way broke", env_name="folder")


@pytest.mark.parametrize("where", ["reset", "step 1", "step 2", "score"])
async def test_a_failure_that_carries_a_result_leaves_that_result(where: str) -> None:
    session = Session(raises={where: SandboxError("the way broke", UNJUDGED)})
    trajectory = await run_episode(session, says(["ls", "pwd"], "ls"))
    assert result_of(trajectory) == UNJUDGED
    assert trajectory.error == "SandboxError: the way broke"
    assert trajectory.ended is None


async def test_what_was_done_before_our_failure_is_recorded() -> None:
    session = Session(raises={"step 2": SandboxError("the way broke", UNJUDGED)})
    trajectory = await run_episode(session, says(["ls", "pwd"], "ls"))
    (turn,) = trajectory.turns
    assert [call.arguments["command"] for call in turn.calls] == ["ls", "pwd"]
    assert len(turn.observations) == 1


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (NetworkError("x"), "network_error"),
        (ProviderError("x"), "provider_error"),
        (SandboxError("x"), "sandbox_error"),
        (SandboxDiedError("x"), "sandbox_error"),
        (TimeoutError("x"), "timeout"),
        (VerifierError("x"), "verifier_error"),
        (ConnectionRefusedError("x"), "provider_error"),
        (OSError(24, "Too many open files"), "sandbox_error"),
        (RuntimeError("a bug of ours"), "sandbox_error"),
    ],
)
@pytest.mark.parametrize("where", ["reset", "score"])
async def test_before_the_agent_acted_every_failure_is_ours(
    where: str, error: Exception, error_type: str
) -> None:
    trajectory = await run_episode(Session(raises={where: error}), says(None))
    result = result_of(trajectory)
    assert (result.has_verdict, result.error_type, result.env_name) == (False, error_type, "folder")
    assert result.env_digest == ENV.digest


@pytest.mark.parametrize(
    ("error", "reward"),
    [
        (NetworkError("x"), None),
        (ProviderError("x", status_code=503), None),
        (VerifierError("x"), None),
        (SandboxExpiredError("x"), None),
        (SandboxDiedError("x"), 0.0),
        (RuntimeError("x"), 0.0),
    ],
)
@pytest.mark.parametrize("where", ["step 1", "score"])
async def test_after_the_agent_acted_the_contracts_rule_decides(
    where: str, error: Exception, reward: float | None
) -> None:
    result = result_of(await run_episode(Session(raises={where: error}), says("ls")))
    assert result.reward == reward


async def test_a_lifetime_that_the_agent_used_up_is_its_own() -> None:
    session = Session(raises={"score": SandboxExpiredError("over")})
    session.agent_seconds = 60.0
    assert result_of(await run_episode(session, says("ls"))).reward == 0.0


@pytest.mark.parametrize("where", ["reset", "step 1", "score"])
async def test_misuse_of_the_session_is_loud(where: str) -> None:
    session = Session(raises={where: SessionError("this session is closed")})
    with pytest.raises(SessionError, match="is closed"):
        await run_episode(session, says("ls"))


async def test_a_session_that_is_over_at_once_is_scored() -> None:
    session = Session()
    session.ended = "time"
    trajectory = await run_episode(session, says("ls"))
    assert (trajectory.ended, session.actions, session.scored) == ("time", [], 1)


# failures of the agent


async def test_what_an_agent_raises_before_its_first_action_is_loud() -> None:
    session = Session()
    with pytest.raises(KeyError, match="typo"):
        await run_episode(session, says(KeyError("typo")))
    assert session.closed == 1


@pytest.mark.parametrize("error", [NetworkError("no route"), ConnectionRefusedError("111")])
async def test_an_outage_before_the_first_action_has_no_verdict(error: Exception) -> None:
    trajectory = await run_episode(Session(), says(error))
    assert result_of(trajectory).reward is None
    assert trajectory.ended is None
    assert trajectory.error == f"{type(error).__name__}: {error}"


async def test_an_outage_after_an_action_has_no_verdict_and_is_not_scored() -> None:
    session = Session()
    trajectory = await run_episode(session, says("ls", ProviderError("busy", status_code=429)))
    assert result_of(trajectory).error_type == "provider_error"
    assert (trajectory.ended, len(trajectory.turns), session.scored) == (None, 1, 0)


async def test_an_agent_that_fails_after_an_action_has_its_zero() -> None:
    session = Session()
    trajectory = await run_episode(session, says("ls", ValueError("context is full")))
    assert result_of(trajectory).reward == 0.0
    assert (trajectory.ended, trajectory.error) == ("agent", "ValueError: context is full")
    assert session.scored == 0


async def test_an_exception_without_a_readable_text_is_an_exception_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    trajectory = await run_episode(Session(), says("ls", Mute()))
    assert (trajectory.error, result_of(trajectory).reward) == ("Mute", 0.0)


# closing


async def test_a_given_session_stays_open_for_its_owner() -> None:
    session = Session()
    await run_episode(session, says("ls"))
    assert session.closed == 0


async def test_a_session_that_is_made_here_is_closed_here() -> None:
    session = Session()
    trajectory = await run_episode(lambda: session, says("ls"))
    assert (session.closed, trajectory.result) == (1, PASSED)


async def test_a_close_that_fails_changes_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(raises={"close": OSError("disk")})
    with caplog.at_level(logging.WARNING):
        trajectory = await run_episode(lambda: session, says("ls"))
    assert trajectory.result == PASSED
    assert "wasn't closed cleanly" in caplog.text


@pytest.mark.parametrize("given", [True, False])
async def test_cancellation_passes_through_and_closes_the_session(given: bool) -> None:
    session = Session()
    waiting = anyio.Event()

    async def agent(trajectory: Trajectory) -> None:
        waiting.set()
        await anyio.sleep_forever()

    finished = False
    async with anyio.create_task_group() as group:

        async def play() -> None:
            nonlocal finished
            await run_episode(session if given else lambda: session, agent)
            finished = True

        group.start_soon(play)
        await waiting.wait()
        group.cancel_scope.cancel()
    assert (finished, session.closed) == (False, 1)


async def test_an_agent_that_hangs_in_a_thread_does_not_hold_cancellation_up() -> None:
    session = Session()
    entered, released = threading.Event(), threading.Event()

    def agent(trajectory: Trajectory) -> None:
        entered.set()
        released.wait(60)

    async with anyio.create_task_group() as group:
        group.start_soon(run_episode, session, agent)
        while not entered.is_set():
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    assert session.closed == 1
    released.set()


# many


async def test_trajectory_i_belongs_to_session_i_whatever_came_of_it() -> None:
    sessions = [
        Session(),
        Session(raises={"reset": NetworkError("no")}),
        Session(steps=1),
        Session(raises={"step 1": SandboxDiedError("gone")}),
    ]
    told: dict[int, Trajectory] = {}
    found = await run_episodes(
        sessions, says("ls"), max_parallel=2, on_episode=told.__setitem__, metadata={"run": 1}
    )
    assert [one.result and one.result.reward for one in found] == [1.0, None, 1.0, 0.0]
    assert [one.ended for one in found] == ["submitted", None, "steps", None]
    assert [told[index] for index in range(4)] == found
    assert [session.closed for session in sessions] == [1, 1, 1, 1]
    assert all(one.metadata == {"run": 1} for one in found)


async def test_no_more_episodes_than_allowed_are_open_at_once() -> None:
    now, most = 0, 0

    class Counting(Session):
        async def reset(self) -> Observation:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await anyio.sleep(0)
            return await super().reset()

        async def close(self) -> None:
            nonlocal now
            now -= 1
            await super().close()

    found = await run_episodes([Counting() for _ in range(7)], says("ls", "pwd"), max_parallel=3)
    assert (len(found), now, most) == (7, 0, 3)


async def test_no_sessions_make_no_trajectories() -> None:
    assert await run_episodes([], says("ls")) == []


async def test_at_least_one_episode_must_be_allowed() -> None:
    with pytest.raises(ValueError, match="max_parallel=0"):
        await run_episodes([Session()], says("ls"), max_parallel=0)


async def test_a_mistake_in_the_agent_stops_all_and_is_raised_as_it_is() -> None:
    sessions = [Session() for _ in range(6)]
    results: list[Trajectory | None] = [None] * 6
    first = sessions[0]

    async def agent(trajectory: Trajectory) -> str | None:
        if first.scored:
            raise NameError("undefined")
        return None

    with pytest.raises(NameError, match="undefined"):
        await run_episodes(sessions, agent, max_parallel=1, results=results)
    assert [one is not None for one in results] == [True, False, False, False, False, False]
    assert [session.closed for session in sessions] == [1, 1, 0, 0, 0, 0]
    whole = completed(sessions, results)
    assert whole[0] == results[0]
    assert [result_of(one).error_type for one in whole[1:]] == ["cancelled"] * 5


async def test_what_had_ended_before_a_cancellation_is_in_the_given_list() -> None:
    sessions = [Session(), Session()]
    results: list[Trajectory | None] = [None, None]
    second = anyio.Event()

    async def agent(trajectory: Trajectory) -> None:
        if sessions[1].id is not None:
            second.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:

        async def play() -> None:
            await run_episodes(sessions, agent, max_parallel=1, results=results)

        group.start_soon(play)
        await second.wait()
        group.cancel_scope.cancel()
    assert results[0] is not None
    assert results[1] is None
    assert [session.closed for session in sessions] == [1, 1]
    assert [result_of(one).has_verdict for one in completed(sessions, results)] == [True, False]


async def test_a_watcher_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def watcher(index: int, trajectory: Trajectory) -> None:
        raise ValueError("no room")

    with caplog.at_level(logging.WARNING):
        found = await run_episodes([Session(), Session()], says("ls"), on_episode=watcher)
    assert [one.result for one in found] == [PASSED, PASSED]
    assert "no room" in caplog.text
