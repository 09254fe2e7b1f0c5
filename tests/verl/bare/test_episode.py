"""A trajectory's session: whatever fails, the worker's loop goes on, nothing is left open, and ours is no 0."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from deepgym import DeepGym
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program
from deepgym.exceptions import SandboxDiedError, SandboxError, SandboxExpiredError
from deepgym.models import MODEL_FAULT_ERRORS, RunResult
from deepgym.providers.base import Act, Place, Ran
from deepgym.testing import (
    FAULTS,
    SESSION_FAULTS,
    FakeProvider,
    FakeSessions,
    FakeWorkspace,
    Fault,
    FaultyProvider,
    SessionFault,
)
from deepgym_verl import episode as episode_module
from deepgym_verl.episode import Episode, LostError
from deepgym_verl.judge import Judge
from deepgym_verl.options import Options

ENV = MultiTurnEnvironment(
    name="test/verl-episode",
    task="Make the file done.",
    verify=Program(source="def verify(work): return work.exists('done')"),
    setup="mkdir -p src",
    limits=EpisodeLimits(steps=6, output=1024, step=5.0, setup=5.0, verify=5.0),
)
WRITE = {"name": "write_file", "arguments": {"path": "done", "content": "yes"}}
LOOK = {"name": "bash", "arguments": {"command": "look"}}


def done(files: dict[str, bytes]) -> bool:
    return files.get("done") == b"yes"


def fake(acts: Any = None, **others: Any) -> FakeProvider:
    return FakeProvider(
        sessions=FakeSessions({"look": "seen\n"} if acts is None else acts, **{"judged": done, **others})
    )


Bench = Callable[..., Judge]


@pytest.fixture
def bench(kit: SimpleNamespace) -> Bench:
    """``bench(provider, **options)``: a judge for ``ENV`` with it."""

    def make(provider: Any, env: Any = ENV, **options: Any) -> Judge:
        return Judge(Options.read({"env": env, **options}), kit.client(provider))

    return make


async def play(judge: Judge, calls: Any = (LOOK, WRITE), env: Any = ENV) -> Any:
    """What ``deepgym_agent`` does: what was seen, whether it was lost under way, and the result."""
    episode = Episode(judge, env)
    episode.begin()
    seen, lost = [], False
    try:
        for call in calls:
            try:
                seen.append(await episode.act(call))
            except LostError:
                lost = True
                break
            if episode.over:
                break
        result = await episode.grade()
    finally:
        await episode.close()
    return SimpleNamespace(seen=seen, lost=lost, result=result, episode=episode)


def all_closed(provider: Any) -> bool:
    while hasattr(provider, "inner"):
        provider = provider.inner
    return all(workspace.closed for workspace in provider.workspaces) and provider.opened == provider.closed


# --- as it should be -------------------------------------------------------------------------------------------


def test_an_episode_is_opened_acted_in_graded_and_closed(bench: Bench) -> None:
    provider = fake()
    found = asyncio.run(play(bench(provider)))
    assert found.seen[0].text == "seen\n"
    assert found.result.reward == 1.0
    assert (found.result.env_name, found.result.env_digest) == (ENV.name, ENV.digest)
    assert (found.episode.steps, found.lost) == (2, False)
    assert [act.do for act in provider.workspaces[0].acts] == ["script", "bash", "write"]
    assert all_closed(provider)


def test_an_episode_in_which_nothing_was_done_is_a_zero(bench: Bench) -> None:
    provider = fake()
    found = asyncio.run(play(bench(provider), calls=()))
    assert (found.result.reward, found.episode.steps) == (0.0, 0)
    assert all_closed(provider)


def test_grading_twice_gives_the_same_result(bench: Bench) -> None:
    async def main() -> None:
        episode = Episode(bench(fake()), ENV)
        episode.begin()
        await episode.act(WRITE)
        one = await episode.grade()
        assert await episode.grade() is one
        assert episode.over
        await episode.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"name": None, "arguments": None},
        {"name": "", "arguments": ""},
        {"name": "no_such_tool", "arguments": "{}"},
        {"name": "bash", "arguments": "{"},
        {"name": "bash", "arguments": "[]"},
        {"name": "bash", "arguments": "null"},
        {"name": "bash", "arguments": "NaN"},
        {"name": "bash", "arguments": {"command": 3}},
        {"name": "bash", "arguments": {"command": "look", "more": 1}},
        {"name": "bash", "arguments": {"command": None}},
        {"name": "bash", "arguments": json.dumps({"command": "x" * 100_000})},
        {"name": "bash", "arguments": '{"a": ' * 50_000},
        {"name": "bash", "arguments": {"command": "\x00"}},
        {"name": "bash", "arguments": {"command": "\ud800"}},
        {"name": "\ud800", "arguments": "\udfff"},
        {"name": "write_file", "arguments": {"path": 3, "content": ["x"]}},
        {"name": "read_file", "arguments": {"path": "x" * 10_000}},
        {"name": ["bash"], "arguments": ()},
    ],
    ids=repr,
)
def test_no_call_of_a_policy_s_raises_and_each_costs_a_step(call: Any, bench: Bench) -> None:
    provider = fake()
    found = asyncio.run(play(bench(provider), calls=(call, WRITE)))
    assert not found.lost
    assert isinstance(found.seen[0].text, str)
    assert (found.episode.steps, found.result.reward) == (2, 1.0)
    assert all_closed(provider)


def test_after_the_last_step_there_is_nothing_to_be_seen(bench: Bench) -> None:
    async def main() -> None:
        episode = Episode(bench(fake()), ENV)
        episode.begin()
        for _ in range(ENV.limits.steps):
            assert not episode.over
            await episode.act(LOOK)
        assert episode.over
        assert await episode.act(WRITE) is None
        assert (await episode.grade()).reward == 0.0
        assert episode.steps == ENV.limits.steps
        await episode.close()

    asyncio.run(main())


def test_calls_of_one_turn_are_done_in_their_order(bench: Bench) -> None:
    provider = fake()

    async def main() -> None:
        episode = Episode(bench(provider), ENV)
        episode.begin()
        writes = [{"name": "write_file", "arguments": {"path": "a", "content": str(n)}} for n in range(5)]
        seen = await asyncio.gather(*map(episode.act, writes))
        assert all(each is not None for each in seen)
        await episode.close()

    asyncio.run(main())
    assert provider.workspaces[0].files["a"] == b"4"


def test_calls_after_the_end_in_one_turn_are_no_failure(bench: Bench) -> None:
    provider = fake()

    async def main() -> None:
        episode = Episode(bench(provider), ENV)
        episode.begin()
        await episode.act(WRITE)
        submit = {"name": "submit", "arguments": {}}
        last, *after = await asyncio.gather(*map(episode.act, (submit, LOOK, WRITE)))
        assert last is not None
        assert last.done
        assert after == [None, None]
        assert (await episode.grade()).reward == 1.0
        await episode.close()

    asyncio.run(main())
    assert all_closed(provider)


def test_a_reward_along_the_way_comes_with_its_step(bench: Bench) -> None:
    env = ENV.model_copy(update={"step_verify": ENV.verify})
    found = asyncio.run(play(bench(fake(), env), env=env))
    assert [each.result.reward for each in found.seen] == [0.0, 1.0]
    assert found.result.reward == 1.0


# --- a fault at each step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", SESSION_FAULTS, ids=str)
def test_a_fault_of_the_sandbox_is_ours_or_the_agent_s_as_the_contract_says(
    fault: SessionFault, bench: Bench
) -> None:
    inner = fake()
    # The set-up works; the agent's first act is what meets the fault.
    answers = {"look"} if fault.verb == "act" else None
    provider = FaultyProvider(inner, fault, answers=answers)
    found = asyncio.run(play(bench(provider)))
    expected = fault.error_type(acted=True)
    assert found.result.error_type == expected
    assert found.result.has_verdict == (expected in MODEL_FAULT_ERRORS)
    assert found.result.score == 0.0
    assert found.lost == (not found.result.has_verdict and fault.verb != "copy")
    if fault.verb == "act" and found.result.has_verdict:
        assert "The sandbox has ended" in found.seen[0].text
    assert all_closed(provider)


@pytest.mark.parametrize("fault", [each for each in SESSION_FAULTS if each.verb == "act"], ids=str)
def test_a_fault_of_the_set_up_is_always_ours(fault: SessionFault, bench: Bench) -> None:
    provider = FaultyProvider(fake(), fault, answers={ENV.setup})
    found = asyncio.run(play(bench(provider)))
    assert found.result.error_type == fault.error_type(acted=False)
    assert not found.result.has_verdict
    assert (found.lost, found.seen, found.episode.steps) == (True, [], 0)
    assert all_closed(provider)


def test_a_set_up_that_fails_is_ours(bench: Bench) -> None:
    provider = fake(lambda act: Ran(output=b"no such package", code=1) if act.do == "script" else None)
    found = asyncio.run(play(bench(provider)))
    assert (found.lost, found.result.has_verdict, found.result.error_type) == (True, False, "sandbox_error")
    assert all_closed(provider)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_of_the_grading_is_dated_like_any_run_s(fault: Fault, bench: Bench) -> None:
    provider = FaultyProvider(fake(), fault)
    found = asyncio.run(play(bench(provider)))
    assert not found.lost
    assert found.result.score == 0.0
    assert found.result.error_type is not None
    assert found.result.has_verdict == (found.result.error_type in MODEL_FAULT_ERRORS)
    ours = {"provider_error", "network_error", "sandbox_error", "timeout", "verifier_error"}
    assert found.result.error_type in ours | {"solution_timeout", "policy_sandbox_failure", "solution_error"}
    if fault.phase.rank < 3 or fault.kind in ("provider", "network", "evicted", "supervisor"):
        assert not found.result.has_verdict, found.result
    assert (found.result.env_name, all_closed(provider)) == (ENV.name, True)


def test_a_sandbox_that_cannot_be_closed_changes_no_verdict(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    provider = fake(fails={"close": RuntimeError("a bug")})
    found = asyncio.run(play(bench(provider)))
    assert found.result.reward == 1.0
    assert "closing sandbox" in caplog.text
    assert all_closed(provider)


def test_the_agent_s_own_end_of_its_sandbox_is_its_zero(bench: Bench) -> None:
    provider = fake({"look": SandboxDiedError("gone")})
    found = asyncio.run(play(bench(provider)))
    assert (found.result.reward, found.result.error_type) == (0.0, "policy_sandbox_failure")
    assert (found.lost, found.episode.steps, len(found.seen)) == (False, 1, 1)
    assert all_closed(provider)


def test_the_end_of_a_sandbox_s_life_is_ours_unless_the_agent_took_it(bench: Bench) -> None:
    provider = fake({"look": SandboxExpiredError("24 h")})
    found = asyncio.run(play(bench(provider)))
    assert (found.lost, found.result.has_verdict, found.result.error_type) == (True, False, "sandbox_error")


def test_what_was_lost_stays_lost_and_nothing_more_is_asked_of_it(bench: Bench) -> None:
    provider = FaultyProvider(fake(), SessionFault("network", "act"), answers={"look"})

    async def main() -> None:
        episode = Episode(bench(provider), ENV)
        episode.begin()
        with pytest.raises(LostError):
            await episode.act(LOOK)
        first = episode.result
        assert episode.over
        acts = len(provider.inner.workspaces[0].acts)  # type: ignore[attr-defined]
        for _ in range(3):
            with pytest.raises(LostError):
                await episode.act(WRITE)
        assert await episode.grade() is first
        assert len(provider.inner.workspaces[0].acts) == acts  # type: ignore[attr-defined]
        await episode.close()

    asyncio.run(main())


def test_a_provider_without_sessions_is_no_verdict(bench: Bench) -> None:
    class Plain:
        name, capabilities = "plain", FakeProvider().capabilities

        async def open(self, spec: Any) -> Any:
            raise AssertionError

        async def close(self) -> None:
            pass

    found = asyncio.run(play(bench(Plain())))
    assert (found.lost, found.result.has_verdict) == (True, False)
    assert "has no sandboxes for sessions" in str(found.result.error)


# --- what hangs ------------------------------------------------------------------------------------------------


class Hanging(FakeProvider):
    """Hangs at one verb of a session's sandbox until it is let go."""

    def __init__(self, verb: str) -> None:
        super().__init__(sessions=FakeSessions({"look": "seen\n"}, judged=done))
        self.verb = verb
        self.there, self.gate = threading.Event(), threading.Event()
        self.ended, self.shut = threading.Event(), threading.Event()

    async def hang(self, verb: str) -> None:
        if verb != self.verb:
            return
        self.there.set()
        try:
            while not self.gate.is_set():
                await anyio.sleep(0.005)
        finally:
            self.ended.set()

    async def host(self, place: Place) -> FakeWorkspace:
        await self.hang("host")
        inner = await super().host(place)
        return _HangingWorkspace(self, inner)  # type: ignore[return-value]


class _HangingWorkspace:
    def __init__(self, provider: Hanging, inner: FakeWorkspace) -> None:
        self.provider, self.inner = provider, inner
        self.id, self.capabilities = inner.id, inner.capabilities

    async def act(self, act: Act) -> Ran:
        await self.provider.hang("setup" if act.do == "script" else "act")
        return await self.inner.act(act)

    async def copy(self, **bounds: Any) -> bytes:
        await self.provider.hang("copy")
        return await self.inner.copy(**bounds)

    async def close(self) -> None:
        await self.provider.hang("close")
        await self.inner.close()
        self.provider.shut.set()


@pytest.fixture
def hanging() -> Iterator[Callable[[str], Hanging]]:
    made: list[Hanging] = []

    def make(verb: str) -> Hanging:
        made.append(Hanging(verb))
        return made[-1]

    yield make
    for each in made:
        each.gate.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing is given up after a moment instead of half a minute."""
    monkeypatch.setattr(episode_module, "_CLOSING", 0.05)


@pytest.mark.parametrize("verb", ["host", "setup", "act", "copy"])
@pytest.mark.usefixtures("impatient")
def test_what_hangs_is_no_verdict_and_is_stopped(
    verb: str, hanging: Callable[[str], Hanging], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = "no sandbox was open"
    said = {"host": opening, "setup": opening, "act": "a step", "copy": "grading"}[verb]
    real = episode_module._within

    async def within(work: Any, seconds: float, late: str) -> Any:
        return await real(work, 0.1 if late.startswith(said) else seconds, late)

    monkeypatch.setattr(episode_module, "_within", within)
    provider = hanging(verb)
    found = asyncio.run(play(bench(provider)))
    assert provider.there.is_set()
    assert not found.result.has_verdict
    assert found.result.error_type == "provider_error"
    assert said in str(found.result.error)
    assert provider.ended.wait(30)


def test_after_a_step_that_hung_nothing_more_is_done(
    hanging: Callable[[str], Hanging], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = hanging("act")
    real = episode_module._within

    async def within(work: Any, seconds: float, late: str) -> Any:
        return await real(work, 0.1 if late.startswith("a step") else seconds, late)

    monkeypatch.setattr(episode_module, "_within", within)

    async def main() -> None:
        episode = Episode(bench(provider), ENV)
        episode.begin()
        with pytest.raises(LostError):
            await episode.act(LOOK)
        provider.gate.set()
        for _ in range(3):
            with pytest.raises(LostError):
                await episode.act(WRITE)
        assert not (await episode.grade()).has_verdict
        await episode.close()

    asyncio.run(main())
    assert not any(workspace.files for workspace in provider.workspaces)
    assert all(workspace.closed for workspace in provider.workspaces)


@pytest.mark.usefixtures("impatient")
def test_a_sandbox_that_never_closes_is_not_waited_for(
    hanging: Callable[[str], Hanging], bench: Bench
) -> None:
    provider = hanging("close")

    async def main() -> None:
        episode = Episode(bench(provider), ENV)
        episode.begin()
        await episode.act(WRITE)
        await episode.close()
        assert not provider.ended.is_set()

    asyncio.run(main())
    provider.gate.set()
    assert provider.ended.wait(30)


# --- what is closed, given up or can't be reached ------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["host", "setup", "act", "copy"])
def test_a_client_that_is_closed_meanwhile_is_no_verdict(
    verb: str, hanging: Callable[[str], Hanging], bench: Bench
) -> None:
    provider = hanging(verb)
    judge = bench(provider)

    async def main() -> Any:
        playing = asyncio.ensure_future(play(judge))
        await asyncio.to_thread(provider.there.wait)
        await asyncio.to_thread(judge.dg.close)
        return await playing

    found = asyncio.run(main())
    assert not found.result.has_verdict
    assert found.result.error_type in {"sandbox_error", "cancelled"}
    provider.gate.set()
    assert all(workspace.closed for workspace in provider.workspaces)
    again = asyncio.run(play(judge))
    assert again.result.reward == 1.0


@pytest.mark.parametrize("verb", ["host", "setup", "act", "copy"])
def test_a_trajectory_that_nobody_waits_for_leaves_nothing_open(
    verb: str, hanging: Callable[[str], Hanging], bench: Bench
) -> None:
    provider = hanging(verb)
    judge = bench(provider, max_sessions=1)

    async def main() -> None:
        playing = asyncio.ensure_future(play(judge))
        await asyncio.to_thread(provider.there.wait)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
        assert playing.cancelled()
        assert await asyncio.to_thread(provider.ended.wait, 30)

    asyncio.run(main())
    provider.gate.set()
    # The one place there is was given back.
    assert asyncio.run(play(judge)).result.reward == 1.0
    assert all(workspace.closed for workspace in provider.workspaces)


def test_a_trajectory_that_is_given_up_while_its_sandbox_closes_leaves_none_open(
    hanging: Callable[[str], Hanging], bench: Bench
) -> None:
    provider = hanging("close")
    judge = bench(provider, max_sessions=1)

    async def main() -> None:
        playing = asyncio.ensure_future(play(judge))
        await asyncio.to_thread(provider.there.wait)  # grading has copied the work, and closes the sandbox
        playing.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        provider.gate.set()
        with contextlib.suppress(asyncio.CancelledError):
            await playing

    asyncio.run(main())
    assert provider.shut.wait(10)
    assert asyncio.run(play(judge)).result.reward == 1.0
    assert all(workspace.closed for workspace in provider.workspaces)


def test_a_client_that_cannot_be_reached_is_no_verdict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = bench(fake())

    def fail(make: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(judge.dg, "submit", fail)
    found = asyncio.run(play(judge))
    assert (found.lost, found.seen) == (True, [])
    assert not found.result.has_verdict
    assert "can't start new thread" in str(found.result.error)


def test_a_client_that_is_lost_in_mid_episode_is_no_verdict(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = bench(fake())

    async def main() -> Any:
        episode = Episode(judge, ENV)
        episode.begin()
        await episode.act(LOOK)

        def fail(make: object) -> None:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(judge.dg, "submit", fail)
            with pytest.raises(LostError):
                await episode.act(WRITE)
            result = await episode.grade()
            await episode.close()
        await episode.close()
        return result

    result = asyncio.run(main())
    assert (result.has_verdict, result.error_type, result.env_name) == (False, "sandbox_error", ENV.name)


def test_a_verdict_that_comes_with_an_error_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = bench(fake())

    async def fail(make: object) -> None:
        raise SandboxError("odd", RunResult(score=1.0, passed=True, exit_code=0))

    monkeypatch.setattr(judge, "inside", fail)
    found = asyncio.run(play(judge))
    assert (found.lost, found.result.has_verdict, found.result.score) == (True, False, 0.0)


def test_an_episode_that_was_never_begun_closes_and_is_no_verdict(bench: Bench) -> None:
    async def main() -> None:
        episode = Episode(bench(fake()), ENV)
        await episode.close()
        assert not (await episode.grade()).has_verdict
        await episode.close()

    asyncio.run(main())


def test_an_episode_that_is_closed_at_once_leaves_nothing_open(bench: Bench) -> None:
    provider = fake()
    judge = bench(provider, max_sessions=1)

    async def main() -> None:
        for _ in range(50):
            episode = Episode(judge, ENV)
            episode.begin()
            await episode.close()
            await episode.close()

    asyncio.run(main())
    assert asyncio.run(play(judge)).result.reward == 1.0
    assert all_closed(provider)


# --- room --------------------------------------------------------------------------------------------------------


class Crowd(FakeProvider):
    """Counts the sessions that are open at once."""

    def __init__(self, **more: Any) -> None:
        super().__init__(sessions=FakeSessions({"look": "seen\n"}, judged=done))
        self.most = 0
        self.__dict__.update(more)

    async def host(self, place: Place) -> FakeWorkspace:
        found = await super().host(place)
        self.most = max(self.most, sum(not each.closed for each in self.workspaces))
        return found


@pytest.mark.parametrize(
    ("more", "options", "most"), [({}, {"max_sessions": 3}, 3), ({"max_sessions": 2}, {}, 2), ({}, {}, 40)]
)
def test_no_more_sessions_are_open_than_there_is_room_for(
    more: dict[str, Any], options: dict[str, Any], most: int, bench: Bench
) -> None:
    provider = Crowd(**more)
    judge = bench(provider, **options)

    async def main() -> list[Any]:
        return list(await asyncio.gather(*(play(judge) for _ in range(40))))

    found = asyncio.run(main())
    assert [each.result.reward for each in found] == [1.0] * 40
    assert provider.most <= most
    assert all_closed(provider)


def test_waiting_for_room_is_no_failure(bench: Bench, hanging: Callable[[str], Hanging]) -> None:
    provider = Crowd()
    judge = bench(provider, max_sessions=1)

    async def main() -> Any:
        first = Episode(judge, ENV)
        first.begin()
        await first.act(LOOK)
        second = asyncio.ensure_future(play(judge))
        third = asyncio.ensure_future(play(judge))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not second.done()
        third.cancel()  # one that gives up waiting takes no place with it
        with contextlib.suppress(asyncio.CancelledError):
            await third
        await first.close()
        return await second

    assert asyncio.run(main()).result.reward == 1.0
    assert provider.most == 1


def test_a_client_that_was_closed_has_all_its_room_again(bench: Bench) -> None:
    provider = Crowd()
    judge = bench(provider, max_sessions=1)

    async def main(closing: bool) -> None:
        first = Episode(judge, ENV)
        first.begin()
        await first.act(LOOK)
        waiting = asyncio.ensure_future(play(judge))
        for _ in range(200):
            await asyncio.sleep(0)
        if closing:
            await asyncio.to_thread(judge.dg.close)
            assert not (await waiting).result.has_verdict
        await first.close()
        if not closing:
            assert (await waiting).result.reward == 1.0

    for closing in (True, False, True, False):
        asyncio.run(main(closing))
    assert all(workspace.closed for workspace in provider.workspaces)


def test_a_real_session_of_the_local_sandbox_is_played_and_closed(local_sandbox: None) -> None:
    with DeepGym(slots=1) as dg:
        judge = Judge(Options.read({"env": ENV}), dg)
        found = asyncio.run(play(judge, [{"name": "bash", "arguments": '{"command": "echo yes > done"}'}]))
        assert found.result.reward == 1.0
        assert (found.result.isolation, found.lost) != ("", True)
