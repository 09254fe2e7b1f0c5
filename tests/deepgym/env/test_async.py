"""``AsyncDeepGymEnv`` does what ``DeepGymEnv`` does."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym, AsyncDeepGymEnv, Case, Cases, DeepGym, DeepGymEnv, Environment, Program
from deepgym.contract.evidence import Phase
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment
from deepgym.exceptions import SandboxError, SessionError
from deepgym.models import RunResult
from deepgym.session import Observation
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider

ADD = Environment(
    name="add",
    task="Write add(a, b).",
    verify=Cases(function="add", cases=(Case(args=(1, 2), expected=3), Case(args=(0, 0), expected=0))),
)
SCRIPT = {
    "right": Behaviour.calls(lambda a, b: a + b),
    "half": Behaviour.calls(lambda a, b: 0),
    "lost": Behaviour.calls(lambda a, b: 0),
    "loops": Behaviour.loops(),
}
GREET = MultiTurnEnvironment(
    name="greet",
    task="Write hello into hello.txt.",
    verify=Program(source="def verify(work):\n    return work.exists('hello.txt')\n"),
    limits=EpisodeLimits(steps=3),
)


def provider() -> FaultyProvider:
    return FaultyProvider(FakeProvider(SCRIPT), Fault("network", Phase.OPENED), answers={"lost"})


def run(main: Callable[[], Any]) -> Any:
    return anyio.run(main)


def plain(steps: Any) -> list[Any]:
    return [
        (text, reward, terminated, truncated, dict(info))
        for text, reward, terminated, truncated, info in steps
    ]


def test_the_same_calls_give_the_same() -> None:
    answers = ["half", "loops", "right"]

    async def main() -> Any:
        async with AsyncDeepGymEnv(ADD, AsyncDeepGym(provider=provider()), max_turns=4) as env:
            task, info = await env.reset(seed=3)
            steps = [await env.step(answer) for answer in answers]
            return (task, dict(info)), plain(steps), plain(await env.step_batch([*answers, "lost"]))

    with DeepGymEnv(ADD, DeepGym(provider=provider()), max_turns=4) as env:
        task, info = env.reset(seed=3)
        steps = [env.step(answer) for answer in answers]
        assert run(main) == ((task, dict(info)), plain(steps), plain(env.step_batch([*answers, "lost"])))
    assert [step[1] for step in steps] == [0.5, 0.0, 0.5]


def test_it_has_the_same_methods_and_every_one_is_awaited() -> None:
    for name in ("reset", "step", "step_batch", "close"):
        ours, theirs = getattr(AsyncDeepGymEnv, name), getattr(DeepGymEnv, name)
        assert inspect.iscoroutinefunction(ours)
        assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()


def test_a_step_raises_where_there_is_no_verdict_and_misuse_says_so() -> None:
    async def main() -> None:
        env = AsyncDeepGymEnv(ADD, AsyncDeepGym(provider=provider()))
        with pytest.raises(SessionError, match="reset"):
            await env.step("right")
        await env.reset()
        with pytest.raises(SandboxError) as raised:
            await env.step("lost")
        assert raised.value.result is not None
        assert (await env.step("right"))[1] == 1.0
        with pytest.raises(SessionError, match="reset"):
            await env.step("right")
        with pytest.raises(TypeError, match=r"dg\.run_episodes"):
            await AsyncDeepGymEnv(GREET).step_batch(["ls"])

    run(main)


def test_environments_share_a_client_at_once() -> None:
    async def main() -> None:
        dg = AsyncDeepGym(provider=provider())
        rewards: dict[int, float] = {}

        async def episode(number: int) -> None:
            env = AsyncDeepGymEnv(ADD, dg)
            await env.reset()
            rewards[number] = (await env.step("right" if number % 2 else "half"))[1]

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(episode, number)
        assert rewards == {number: 1.0 if number % 2 else 0.5 for number in range(8)}

    run(main)


class FakeSession:
    seed = 0

    def __init__(self, wait: bool = False) -> None:
        self.wait, self.closed = wait, 0
        self.acting = anyio.Event()

    async def reset(self) -> Observation:
        return Observation(text="task")

    async def step(self, action: object) -> Observation:
        self.acting.set()
        if self.wait:
            await anyio.sleep_forever()
        return Observation(text="over", done=True, ended="submitted")

    async def score(self) -> RunResult:
        return RunResult(score=0.5)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


class FakeClient:
    def __init__(self, session: FakeSession) -> None:
        self.made = session

    def session(self, env: object, *, seed: int | None = None) -> FakeSession:
        return self.made


def test_an_episode_is_scored_at_its_end() -> None:
    async def main() -> None:
        client = FakeClient(FakeSession())
        env = AsyncDeepGymEnv(GREET, client)  # type: ignore[arg-type]
        await env.reset()
        assert (await env.step("x"))[:4] == ("over", 0.5, True, False)
        assert client.made.closed == 1

    run(main)


def test_a_cancelled_step_closes_its_sandbox() -> None:
    async def main() -> None:
        client = FakeClient(FakeSession(wait=True))
        env = AsyncDeepGymEnv(GREET, client)  # type: ignore[arg-type]
        await env.reset()
        async with anyio.create_task_group() as group:
            group.start_soon(env.step, "x")
            await client.made.acting.wait()
            group.cancel_scope.cancel()
        assert client.made.closed == 1
        with pytest.raises(SessionError, match="was lost"):
            await env.step("x")

    run(main)


def test_it_pickles_without_its_own_client() -> None:
    env = AsyncDeepGymEnv(ADD)
    env._client()
    copy = pickle.loads(pickle.dumps(env))
    assert copy.environment == ADD
    assert copy._own is None


@pytest.mark.local_sandbox
def test_it_works_in_the_local_sandbox_with_a_client_of_its_own() -> None:
    async def main() -> None:
        async with AsyncDeepGymEnv("two_sum") as env:
            await env.reset()
            _, reward, terminated, _, info = await env.step("def two_sum(nums, target):\n    return [0, 1]")
            assert (terminated, info.has_verdict) == (True, True)
            assert 0.0 < reward < 1.0
        async with AsyncDeepGymEnv(GREET) as env:
            await env.reset()
            await env.step("touch hello.txt")
            assert (await env.step({"name": "submit", "arguments": {}}))[1:3] == (1.0, True)

    run(main)
