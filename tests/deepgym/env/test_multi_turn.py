from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from deepgym import DeepGym, DeepGymEnv, Program
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, ToolCall
from deepgym.exceptions import NetworkError, SandboxError, SessionError, VerifierError
from deepgym.models import RunResult
from deepgym.session import Observation

GREET = MultiTurnEnvironment(
    name="greet",
    task="Write hello into hello.txt.",
    verify=Program(source="def verify(work):\n    return work.text('hello.txt').strip() == 'hello'\n"),
    limits=EpisodeLimits(steps=3),
)
WRITE = {"name": "write_file", "arguments": {"path": "hello.txt", "content": "hello"}}
SUBMIT = {"name": "submit", "arguments": {}}

LOST = RunResult(score=0.0, error_type="network_error")


class FakeSession:
    """A session in which every step does what the test says."""

    def __init__(self, seed: int | None, seen: list[Any], verdict: Any) -> None:
        self.seed = 7 if seed is None else seed
        self.seen, self.verdict = seen, verdict
        self.actions: list[object] = []
        self.closed = 0

    def reset(self) -> Observation:
        first = self.seen[0]
        if isinstance(first, Exception):
            raise first
        return first

    def step(self, action: object) -> Observation:
        self.actions.append(action)
        seen = self.seen[len(self.actions)]
        if isinstance(seen, BaseException):
            raise seen
        return seen

    def score(self) -> RunResult:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def close(self) -> None:
        self.closed += 1


class FakeClient:
    def __init__(self, *seen: Any, verdict: Any = None) -> None:
        self.seen, self.verdict = list(seen), verdict
        self.sessions: list[FakeSession] = []

    def session(self, env: MultiTurnEnvironment, *, seed: int | None = None) -> FakeSession:
        self.sessions.append(FakeSession(seed, self.seen, self.verdict))
        return self.sessions[-1]

    def env(self) -> DeepGymEnv:
        return DeepGymEnv(GREET, self)  # type: ignore[arg-type]


TASK = Observation(text="the task")
SEEN = Observation(text="seen", exit_code=0)


def ends(ended: Any) -> Observation:
    return Observation(text="over", done=True, ended=ended)


def test_an_episode_is_observations_until_the_agent_submits() -> None:
    client = FakeClient(TASK, SEEN, ends("submitted"), verdict=RunResult(score=0.25))
    env = client.env()
    text, info = env.reset()
    assert (text, info.seed, info.turn, info.has_verdict) == ("the task", 7, 0, False)
    text, reward, terminated, truncated, info = env.step("ls")
    assert (text, reward, terminated, truncated) == ("seen", 0.0, False, False)
    assert (info.has_verdict, info.result, info.exit_code, info.ended) == (False, None, 0, None)
    text, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (text, reward, terminated, truncated) == ("over", 0.25, True, False)
    assert (info.has_verdict, info.score, info.turn, info.ended) == (True, 0.25, 2, "submitted")
    assert info.result is env.last_result is client.verdict
    assert json.loads(json.dumps(info)) == info
    assert client.sessions[0].actions == ["ls", SUBMIT]
    assert client.sessions[0].closed == 1


@pytest.mark.parametrize(
    ("ended", "terminated"),
    [("submitted", True), ("sandbox", True), ("agent", True), ("steps", False), ("time", False)],
)
def test_a_limit_truncates_and_everything_else_terminates(ended: str, terminated: bool) -> None:
    env = FakeClient(TASK, ends(ended), verdict=RunResult(score=1.0, passed=True)).env()
    env.reset()
    assert env.step("x")[1:4] == (1.0, terminated, not terminated)
    with pytest.raises(SessionError, match=rf"has ended \({ended}\); call reset\(\)"):
        env.step("x")


def test_a_step_verifiers_score_is_the_steps_reward() -> None:
    judged = SEEN.model_copy(update={"result": RunResult(score=0.5)})
    unjudged = SEEN.model_copy(update={"result": RunResult(score=0.0, error_type="verifier_error")})
    last = ends("submitted").model_copy(update={"result": RunResult(score=0.5)})
    env = FakeClient(TASK, judged, unjudged, last, verdict=RunResult(score=1.0, passed=True)).env()
    env.reset()
    steps = [env.step("x") for _ in range(3)]
    assert [step[1] for step in steps] == [0.5, 0.0, 1.0]
    assert [step[4].has_verdict for step in steps] == [True, False, True]


def test_an_episode_without_a_verdict_that_does_not_raise_is_masked() -> None:
    gave_up = RunResult(score=1.0, exit_code=2)
    env = FakeClient(TASK, ends("submitted"), verdict=gave_up).env()
    env.reset()
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated, info.has_verdict) == (0.0, True, False)


@pytest.mark.parametrize(
    "error", [SandboxError("gone", LOST), NetworkError("gone", LOST), KeyboardInterrupt()]
)
def test_a_step_that_fails_on_our_side_raises_and_ends_the_episode(error: Any) -> None:
    client = FakeClient(TASK, error)
    env = client.env()
    env.reset()
    with pytest.raises(type(error)) as raised:
        env.step("x")
    assert raised.value is error
    assert client.sessions[0].closed == 1
    with pytest.raises(SessionError, match=rf"was lost: {type(error).__name__}; call reset\(\)"):
        env.step("x")
    env.reset()
    assert len(client.sessions) == 2


def test_a_verdict_that_cannot_be_had_raises_with_its_result() -> None:
    client = FakeClient(TASK, ends("submitted"), verdict=VerifierError("broken", LOST))
    env = client.env()
    env.reset()
    with pytest.raises(VerifierError) as raised:
        env.step(SUBMIT)
    assert raised.value.result is LOST
    assert client.sessions[0].closed == 1
    with pytest.raises(SessionError, match="reset"):
        env.step("x")


def test_a_reset_that_fails_raises_and_leaves_no_sandbox() -> None:
    client = FakeClient(SandboxError("none to be had", LOST))
    env = client.env()
    with pytest.raises(SandboxError, match="none to be had"):
        env.reset()
    assert client.sessions[0].closed == 1
    with pytest.raises(SessionError, match="reset"):
        env.step("x")


def test_a_reset_in_an_episode_starts_over_in_a_sandbox_of_its_own() -> None:
    client = FakeClient(TASK, SEEN, SEEN)
    env = client.env()
    env.reset(seed=3)
    env.step("x")
    _, info = env.reset(seed=4)
    assert [session.closed for session in client.sessions] == [1, 0]
    assert [session.seed for session in client.sessions] == [3, 4]
    assert (info.turn, info.seed) == (0, 4)
    env.close()
    env.close()
    assert [session.closed for session in client.sessions] == [1, 1]
    with pytest.raises(SessionError, match="reset"):
        env.step("x")


def test_a_pickled_environment_leaves_its_sandbox_behind() -> None:
    client = FakeClient(TASK, SEEN, SEEN)
    env = client.env()
    env.reset()
    copy = pickle.loads(pickle.dumps(env))
    with pytest.raises(SessionError, match=r"belongs to the environment that opened it; call reset\(\)"):
        copy.step("x")
    copy.close()
    assert client.sessions[0].closed == 0
    assert env.step("x")[0] == "seen"
    copy.reset()
    assert copy.step("x")[0] == "seen"


def test_a_forked_childs_copy_needs_a_reset_and_leaves_the_parents_sandbox_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = FakeClient(TASK, SEEN)
    env = client.env()
    env.reset()
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(SessionError, match="belongs to the environment that opened it"):
        env.step("x")
    env.reset()
    assert [session.closed for session in client.sessions] == [0, 0]
    assert env.step("x")[0] == "seen"


def test_answers_in_a_batch_are_not_for_episodes() -> None:
    with pytest.raises(TypeError, match=r"'greet' is worked on in steps.*dg\.run_episodes"):
        FakeClient().env().step_batch(["ls"])


def test_turns_are_the_environments_own_limit() -> None:
    with pytest.raises(ValueError, match=r"max_turns=2: .*limits\.steps \(3\)"):
        DeepGymEnv(GREET, max_turns=2)


def test_a_long_observation_fits_the_space() -> None:
    env = FakeClient(Observation(text="a" * (1 << 21)), Observation(text="b" * (1 << 21))).env()
    assert env.reset()[0] in env.observation_space
    assert env.step("x")[0] in env.observation_space


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym() as client:
        yield client


@pytest.mark.local_sandbox
def test_an_agent_works_in_a_real_sandbox(dg: DeepGym) -> None:
    with DeepGymEnv(GREET, dg, render_mode="ansi") as env:
        assert env.reset()[0] == GREET.task
        assert env.step("ls")[1:4] == (0.0, False, False)
        assert env.step(ToolCall(name="write_file", arguments=WRITE["arguments"]))[4].invalid is False
        _, reward, terminated, truncated, info = env.step(SUBMIT)
        assert (reward, terminated, truncated, info.passed, info.turn) == (1.0, True, False, True, 3)
        assert "greet, turn 3" in (env.render() or "")
        env.reset()
        steps = [env.step({"name": "nonsense"}), env.step("cat hello.txt"), env.step("exit 3")]
        assert steps[0][4].invalid
        assert "No such file" in steps[1][0]
        assert steps[2][1:4] == (0.0, False, True)
        assert (steps[2][4].has_verdict, steps[2][4].ended) == (True, "steps")


SECRET = "xyzzy5791"
TELLS = f"""
import sys
def verify(work):
    print({SECRET!r}, file=sys.stderr)
    print({SECRET!r})
    assert work.exists("answer.txt"), "no answer: {SECRET}"
    case = {{"name": {SECRET!r}, "passed": False, "message": "expected {SECRET}"}}
    wanted = open("wanted.txt").read()
    return {{"score": 0.5, "cases": [case], "details": {{wanted: wanted}}, "metrics": {{"{SECRET}": 1.0}}}}
"""


@pytest.mark.local_sandbox
@pytest.mark.parametrize("answered", [True, False])
def test_nothing_that_an_agent_is_shown_tells_what_was_expected(dg: DeepGym, answered: bool) -> None:
    verify = Program(source=TELLS, files={"wanted.txt": SECRET})
    env = DeepGymEnv(
        MultiTurnEnvironment(name="tells", task="Answer.", verify=verify, step_verify=verify),
        dg,
        render_mode="ansi",
    )
    shown: list[Any] = [*env.reset(), env.render()]
    step = env.step("touch answer.txt" if answered else "ls")
    assert (step[1], step[4].has_verdict) == (0.5 if answered else 0.0, True)
    shown += [step, env.render()]
    step = env.step(SUBMIT)
    assert (step[1], step[4].has_verdict) == (0.5 if answered else 0.0, True)
    shown += [step, json.dumps(step[4]), env.render()]
    assert SECRET not in repr(shown)
    assert SECRET in step[4].result.model_dump_json()


@pytest.mark.local_sandbox
def test_a_client_of_ones_own_serves_episodes_one_after_another() -> None:
    env = DeepGymEnv(GREET)
    for _ in range(2):
        env.reset()
        env.step(WRITE)
        assert env.step(SUBMIT)[1] == 1.0
    env.close()


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_fork_in_an_episode_leaves_it_with_the_parent(dg: DeepGym) -> None:
    env = DeepGymEnv(GREET, dg)
    env.reset()
    child = os.fork()
    if child == 0:
        right = False
        try:
            try:
                env.step("ls")
            except SessionError:
                env.reset()
                env.step(WRITE)
                right = env.step(SUBMIT)[1] == 1.0
            env.close()
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    env.step(WRITE)
    assert env.step(SUBMIT)[1] == 1.0


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes")
def test_gymnasium_takes_an_episode_for_one(dg: DeepGym) -> None:
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env
    from gymnasium.vector import SyncVectorEnv
    from gymnasium.wrappers import RecordEpisodeStatistics

    check_env(DeepGymEnv(GREET, dg))
    wrapped: Any = RecordEpisodeStatistics(DeepGymEnv(GREET, dg))
    wrapped.reset()
    wrapped.step(WRITE)
    info = wrapped.step(SUBMIT)[4]
    assert (info["episode"]["r"], info["episode"]["l"], info.has_verdict) == (1.0, 2, True)
    envs = SyncVectorEnv([lambda: DeepGymEnv(GREET, dg)] * 2)
    envs.reset(seed=1)
    envs.step([WRITE, "exit 3"])
    _, rewards, terminated, _, infos = envs.step([SUBMIT, {"name": "nonsense"}])
    assert (rewards.tolist(), terminated.tolist()) == ([1.0, 0.0], [True, False])
    assert (infos["ended"].tolist(), infos["invalid"].tolist()) == (["submitted", None], [False, True])
    envs.close()
