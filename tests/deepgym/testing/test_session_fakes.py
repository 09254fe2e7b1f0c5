"""Sessions of the fake provider behave as they say, and episodes on them as the contract says."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from deepgym.client import AsyncDeepGym, DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, ToolCall
from deepgym.exceptions import (
    NetworkError,
    ProviderError,
    SandboxDiedError,
    SandboxError,
    SandboxExpiredError,
    SupervisorError,
    TimeoutError,
    VerifierError,
)
from deepgym.models import RunResult
from deepgym.providers.base import Act, Hosting, Job, Place, Ran, Spec
from deepgym.session import AsyncSession, Trajectory
from deepgym.testing import (
    FAULTS,
    SESSION_FAULTS,
    Behaviour,
    FakeProvider,
    FakeSessions,
    FakeWorkspace,
    Fault,
    FaultyProvider,
    SessionFault,
)
from deepgym.testing.trees import Entry, files_of, pack_tree, read_tree

pytestmark = pytest.mark.anyio

ENV = MultiTurnEnvironment(
    name="test/fake-session",
    task="Make the file done.",
    verify=Program(source="def verify(work): return work.exists('done')"),
    files={"notes.txt": "read me"},
    setup="mkdir -p src",
    limits=EpisodeLimits(steps=8, output=1024),
)
TOUCH = ToolCall(name="write_file", arguments={"path": "done", "content": "yes"})


def done(files: dict[str, bytes]) -> bool:
    return files.get("done") == b"yes"


def fake(acts: Any = None, **others: Any) -> FakeProvider:
    return FakeProvider(sessions=FakeSessions(acts or {}, **{"judged": done, **others}))


async def opened(provider: Any, env: MultiTurnEnvironment = ENV) -> AsyncSession:
    session = AsyncDeepGym(provider=provider).session(env)
    await session.reset()
    return session


async def played(provider: Any, *actions: Any, env: MultiTurnEnvironment = ENV) -> Trajectory:
    left = list(actions)
    return await AsyncDeepGym(provider=provider).run_episode(env, lambda _: left.pop(0) if left else None)


async def hosted(provider: FakeProvider) -> FakeWorkspace:
    return await provider.host(Place())


# What is scripted.


async def test_a_command_comes_to_what_its_script_says() -> None:
    session = await opened(fake({"make": "built\n", "false": Ran(code=1), "cat": b"\xff\xfe"}))
    assert (await session.step("make")).text == "built\n"
    assert (await session.step(" false\n")).exit_code == 1
    assert (await session.step("cat")).text == "\ufffd\ufffd"
    seen = await session.step("ls")
    assert (seen.exit_code, "unscripted" in seen.text) == (127, True)


async def test_python_and_bash_are_known_by_their_source() -> None:
    session = await opened(fake({"print(1)": "1\n"}))
    call = ToolCall(name="python", arguments={"code": "print(1)\n"})
    assert (await session.step(call)).text == "1\n"


async def test_files_are_kept_for_real() -> None:
    provider = fake(files={"given.txt": "from the start"})
    session = await opened(provider)
    read = {"name": "read_file", "arguments": {"path": "notes.txt"}}
    assert (await session.step(read)).text == "read me"
    read["arguments"] = {"path": "/box/work/given.txt"}
    assert (await session.step(read)).text == "from the start"
    read["arguments"] = {"path": "missing"}
    assert (await session.step(read)).exit_code == 1
    await session.step({"name": "write_file", "arguments": {"path": "a/b.txt", "content": "deep"}})
    read["arguments"] = {"path": "a"}
    assert "directory" in (await session.step(read)).text
    (workspace,) = provider.workspaces
    assert workspace.files["a/b.txt"] == b"deep"


async def test_a_script_may_be_a_function_of_the_sandbox_async_or_not() -> None:
    async def later(workspace: FakeWorkspace) -> str:
        await anyio.lowlevel.checkpoint()
        return f"{len(workspace.acts)} acts\n"

    def touch(workspace: FakeWorkspace) -> None:
        workspace.files["done"] = b"yes"

    provider = fake({"count": later, "touch done": touch})
    session = await opened(provider)
    assert (await session.step("count")).text == "3 acts\n"
    await session.step("touch done")
    assert (await session.score()).reward == 1.0


async def test_a_function_may_answer_every_act() -> None:
    def acts(act: Act) -> Ran | None:
        return Ran(output=act.data.upper(), code=0) if act.do == "bash" else None

    session = await opened(fake(acts))
    assert (await session.step("hello")).text == "HELLO"
    assert (await session.step(TOUCH)).exit_code == 0
    assert (await session.score()).reward == 1.0


async def test_output_is_cut_and_time_runs_out_as_in_a_real_one() -> None:
    session = await opened(fake({"yes": b"y\n" * 10_000, "sleep": Ran(seconds=1e9)}))
    seen = await session.step("yes")
    assert (seen.cut, len(seen.text) < 2000, "left out" in seen.text) == (True, True, True)
    seen = await session.step("sleep")
    assert (seen.timed_out, seen.exit_code, seen.seconds) == (True, None, ENV.limits.step)


async def test_what_runs_on_ends_with_the_last_copy() -> None:
    def log(workspace: FakeWorkspace) -> None:
        workspace.files["log"] = workspace.files.get("log", b"") + b"x"

    workspace = await hosted(fake({"log &": lambda workspace: workspace.background.append(log)}))
    await workspace.act(Act("bash", b"log &"))
    sizes = [len(files_of(await workspace.copy(last=last, room=99, files=9))["log"]) for last in (0, 0, 1, 1)]
    assert sizes == [1, 2, 2, 2]


async def test_a_copy_holds_what_the_bounds_allow() -> None:
    workspace = await hosted(fake(files={"a": "1234", "b/c": "5678", "d": "9"}))
    entries, left_out = read_tree(await workspace.copy(last=True, room=5, files=9))
    assert (sorted(entries), left_out) == (["a", "b", "d"], 1)
    entries, left_out = read_tree(await workspace.copy(last=True, room=99, files=2))
    assert (sorted(entries), left_out) == (["a", "b"], 2)


async def test_a_tree_may_be_scripted_apart_from_the_files() -> None:
    assert (await played(fake(tree={"done": "yes"}))).result.reward == 1.0
    assert (await played(fake(tree=pack_tree({"done": b"yes"})))).result.reward == 1.0
    # A provider's tree that isn't one is read by the verifier, whose crash is dated as ever.
    with pytest.raises(ValueError, match=r"."):
        read_tree(b"nonsense")


async def test_a_program_that_is_missing_is_named() -> None:
    env = ENV.model_copy(update={"requires": ("gcc",)})
    with pytest.raises(SandboxError, match="'gcc'"):
        await opened(fake(missing=frozenset({"gcc"})), env)


async def test_what_a_sandbox_was_asked_can_be_seen() -> None:
    provider = fake()
    await opened(provider)
    (workspace,) = provider.workspaces
    assert [act.do for act in workspace.acts] == ["write", "script"]
    assert workspace.acts[1].env == {"DEEPGYM_SEED": "0"}
    assert workspace.place.requires == ("bash",)


async def test_a_closed_sandbox_does_nothing_and_closes_twice() -> None:
    workspace = await hosted(fake())
    await workspace.close()
    await workspace.close()
    with pytest.raises(SandboxDiedError, match="closed"):
        await workspace.act(Act("bash", b"ls"))
    with pytest.raises(SandboxDiedError):
        await workspace.copy(last=True, room=1, files=1)


def test_trees_survive_packing() -> None:
    files: dict[str, Any] = {
        "a/b/c": "text",
        "bin": b"\xff",
        "run": Entry("f", b"#!", executable=True),
        "to": Entry("l", target="a/b"),
        "empty": Entry("d"),
    }
    entries, left_out = read_tree(pack_tree(files))
    assert left_out == 0
    assert entries == {
        "a": Entry("d"),
        "a/b": Entry("d"),
        "a/b/c": Entry("f", b"text"),
        "bin": Entry("f", b"\xff"),
        "empty": Entry("d"),
        "run": files["run"],
        "to": files["to"],
    }


@pytest.mark.parametrize("path", ["../a", "/a", "", "a/../b", "a//b", "."])
def test_a_tree_with_a_path_that_leads_out_is_none(path: str) -> None:
    with pytest.raises(ValueError, match=r"path|folder"):
        read_tree(pack_tree({path: b"x"}))


def test_a_tree_is_read_whole_or_not_at_all() -> None:
    data = pack_tree({"a/b": b"x" * 10})
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"."):
            read_tree(data[:size])
    with pytest.raises(ValueError, match="after"):
        read_tree(data + b"x")


async def test_a_fake_can_be_pickled_and_hosts() -> None:
    again = pickle.loads(pickle.dumps(fake()))
    assert isinstance(again, Hosting)
    assert (await played(again, TOUCH)).result.reward == 1.0


# What a verifier makes of the work.

JUDGED: dict[str, tuple[Any, str | None, float | None]] = {
    "full score": (1.0, None, 1.0),
    "a bool": (True, None, 1.0),
    "half": (0.5, None, 0.5),
    "a function": (lambda files: 0.25, None, 0.25),
    "a function's behaviour": (lambda files: Behaviour.reports(0.75), None, 0.75),
    "nothing said": (None, None, 0.0),
    "looks and reports": (Behaviour.reports(1.0, asks=False, opens=True), None, 1.0),
    "reports without a look": (Behaviour.reports(1.0, asks=False), "verifier_error", None),
    "crashes before the look": (Behaviour.crashes_verifier(asks=False), "verifier_error", None),
    "crashes after the look": (Behaviour.crashes_verifier(asks=False, opens=True), "solution_error", 0.0),
    "crashes after a request": (Behaviour.crashes_verifier(), "solution_error", 0.0),
    "exits 2": (Behaviour.crashes_verifier(2), "verifier_error", None),
    "times out before the look": (Behaviour.loops(asks=False), "timeout", None),
    "times out after the look": (Behaviour.loops(asks=False, opens=True), "solution_timeout", 0.0),
    "loses its sandbox": (Behaviour.breaks_sandbox(), "policy_sandbox_failure", 0.0),
    "NaN": (Behaviour.reports(float("nan"), passed=True), "solution_error", 0.0),
}


@pytest.mark.parametrize(("judged", "error_type", "reward"), JUDGED.values(), ids=JUDGED)
async def test_each_judgement_is_the_one_of_a_real_run(
    judged: Any, error_type: str | None, reward: float | None
) -> None:
    result = (await played(fake(judged=judged), TOUCH)).result
    assert (result.error_type, result.reward, result.has_verdict) == (error_type, reward, reward is not None)


async def test_score_raises_where_a_run_does_and_returns_a_verifiers_own_failure() -> None:
    session = await opened(fake(judged=Behaviour.crashes_verifier(asks=False)))
    with pytest.raises(VerifierError) as caught:
        await session.score()
    assert caught.value.result.has_verdict is False
    session = await opened(fake(judged=Behaviour.loops(asks=False)))
    with pytest.raises(TimeoutError):
        await session.score()
    session = await opened(fake(judged=Behaviour.crashes_verifier(2)))
    result = await session.score()
    assert (result.has_verdict, result.error_type, result.exit_code) == (False, "verifier_error", 2)


async def test_a_step_verifier_judges_each_step() -> None:
    env = ENV.model_copy(update={"step_verify": ENV.verify})
    session = await opened(fake(), env)
    assert (await session.step("ls")).result.reward == 0.0
    assert (await session.step(TOUCH)).result.reward == 1.0


# Sandboxes that fail.


class NoHost:
    """A provider for runs alone."""

    name = "runs-only"

    def __init__(self) -> None:
        self.inner = FakeProvider()
        self.capabilities = self.inner.capabilities

    async def open(self, spec: Spec) -> Any:
        return await self.inner.open(spec)

    async def close(self) -> None:
        await self.inner.close()


@pytest.mark.parametrize(
    "provider", [NoHost(), FaultyProvider(NoHost(), Fault("network"))], ids=["plain", "faulty"]
)
async def test_a_provider_without_sessions_says_so_at_reset(provider: Any) -> None:
    with pytest.raises(SandboxError, match="'runs-only' has no sandboxes for sessions") as caught:
        await opened(provider)
    assert caught.value.result.has_verdict is False
    trajectory = await played(provider, TOUCH)
    assert (trajectory.result.reward, trajectory.result.error_type) == (None, "sandbox_error")


def test_a_sync_session_says_so_too() -> None:
    with (
        DeepGym(provider=NoHost()) as dg,
        dg.session(ENV) as session,
        pytest.raises(SandboxError, match="runs-only"),
    ):
        session.reset()


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


FAILURES: dict[str, Callable[[], BaseException]] = {
    "died": lambda: SandboxDiedError("gone"),
    "expired": lambda: SandboxExpiredError("retired"),
    "503": lambda: ProviderError("busy", "fake", 503),
    "timed out": lambda: ProviderError("no reply", "fake", timed_out=True),
    "evicted": lambda: ProviderError("evicted", "fake", evicted=True),
    "unread": lambda: ProviderError("who knows", "fake"),
    "network": lambda: NetworkError("no route"),
    "supervisor": lambda: SupervisorError("no descriptors"),
    "OSError": lambda: OSError(24, "Too many open files"),
    "RuntimeError": lambda: RuntimeError("a bug"),
    "reset": lambda: ConnectionResetError(104, "Connection reset by peer"),
    "broken pipe": lambda: BrokenPipeError(32, "Broken pipe"),
    "unread for a reason": lambda: because(ProviderError("failed", "fake"), ConnectionError("refused")),
    "died for a reason": lambda: because(SandboxDiedError("gone"), ConnectionResetError(104, "reset")),
    "expired for a reason": lambda: because(SandboxExpiredError("retired"), ConnectionError("closed")),
}
#: What is the agent's once it has acted, for the contract can't tell it from the agent's doing.
AGENTS = {"died", "unread", "OSError", "RuntimeError", "broken pipe", "died for a reason"}


@pytest.mark.parametrize("name", FAILURES)
async def test_what_fails_before_the_agent_acts_is_ours(name: str) -> None:
    make = FAILURES[name]
    for fails in ({"host": make}, {"act": make}):
        with pytest.raises(SandboxError) as caught:
            await opened(fake(fails=fails))
        assert (caught.value.result.has_verdict, caught.value.result.reward) == (False, None)


@pytest.mark.parametrize("ends", ["no action", "submit", "invalid call"])
async def test_a_sandbox_that_fails_before_anything_was_done_in_it_for_the_agent_is_ours(ends: str) -> None:
    actions = {"no action": [], "submit": [ToolCall(name="submit")], "invalid call": [{"name": "?"}]}[ends]
    for name in FAILURES:
        result = (await played(fake(fails={"copy": FAILURES[name]}), *actions)).result
        assert (name, result.reward, result.has_verdict) == (name, None, False)


@pytest.mark.parametrize("name", FAILURES)
async def test_what_fails_once_the_agent_has_acted_is_ours_only_for_certain(name: str) -> None:
    make = FAILURES[name]
    for fails in ({"act": [None, None, None, make]}, {"copy": make}):
        provider = fake({"ls": "a\n"}, fails=fails)
        result = (await played(provider, "ls", TOUCH)).result
        assert result.has_verdict is (name in AGENTS)
        assert result.reward == (0.0 if name in AGENTS else None)
        assert result.error_type is not None


async def test_a_failure_in_turn_passes() -> None:
    provider = fake(fails={"host": [NetworkError("no route"), None, NetworkError("no route")]})
    assert (await played(provider, TOUCH)).result.reward == 1.0
    assert provider.sessions.calls["host"] == 2
    assert (await played(provider, TOUCH)).result.reward == 1.0
    assert provider.sessions.calls["host"] == 4


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failing_close_changes_nothing(name: str) -> None:
    provider = fake(fails={"close": FAILURES[name]})
    assert (await played(provider, TOUCH)).result.reward == 1.0
    async with AsyncDeepGym(provider=provider).session(ENV) as session:
        await session.reset()
        await session.step(TOUCH)
        assert (await session.score()).reward == 1.0
    assert all(workspace.closed for workspace in provider.workspaces)


async def test_a_sandbox_that_ended_stays_so() -> None:
    provider = fake({"kill -9 1": SandboxDiedError("gone")})
    workspace = await hosted(provider)
    for command in (b"kill -9 1", b"ls"):
        with pytest.raises(SandboxDiedError, match="gone"):
            await workspace.act(Act("bash", command))
    with pytest.raises(SandboxDiedError, match="gone"):
        await workspace.copy(last=True, room=1, files=1)


async def test_the_agent_is_told_that_its_sandbox_ended_and_gets_its_zero() -> None:
    session = await opened(fake({"kill -9 1": SandboxDiedError("gone")}))
    seen = await session.step("kill -9 1")
    assert (seen.done, seen.ended) == (True, "sandbox")
    result = await session.score()
    assert (result.error_type, result.reward) == ("policy_sandbox_failure", 0.0)


@pytest.mark.parametrize(
    ("share", "reward"), [(0.4, None), (0.5, 0.0), (0.6, 0.0)], ids=["below", "half", "above"]
)
@pytest.mark.parametrize("verb", ["act", "copy"])
async def test_an_expired_sandbox_is_the_agents_by_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, verb: str, share: float, reward: float | None
) -> None:
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr("deepgym.session.session.time", clock)
    expired = SandboxExpiredError("retired")
    fails = {"copy": expired} if verb == "copy" else {}
    session = await opened(fake({"work": Ran(code=0, seconds=10.0), "more": expired}, fails=fails))
    await session.step("work")
    clock.now += 10.0 / share

    async def more() -> RunResult:
        if verb == "act":
            assert (await session.step("more")).done
        return await session.score()

    if reward is None:
        with pytest.raises(SandboxExpiredError) as caught:
            await more()
        result = caught.value.result
        assert result.error_type == "sandbox_error"
    else:
        result = await more()
        assert result.error_type == "policy_sandbox_failure"
    assert (session.agent_seconds, result.reward) == (10.0, reward)


async def _cancelled(call: Callable[[anyio.CancelScope], Awaitable[object]]) -> None:
    with anyio.CancelScope() as scope:
        await call(scope)
    assert scope.cancelled_caught


async def test_a_cancelled_step_has_no_verdict_and_leaves_no_sandbox() -> None:
    scopes: list[anyio.CancelScope] = []

    async def hang(workspace: FakeWorkspace) -> None:
        scopes[0].cancel()
        await anyio.sleep_forever()

    provider = fake({"hang": hang})

    async def play(scope: anyio.CancelScope) -> None:
        scopes.append(scope)
        async with AsyncDeepGym(provider=provider).session(ENV) as session:
            await session.reset()
            try:
                await session.step("hang")
            finally:
                with pytest.raises(SandboxError) as caught:
                    with anyio.CancelScope(shield=True):
                        await session.score()
                result = caught.value.result
                assert (result.error_type, result.reward) == ("cancelled", None)

    await _cancelled(play)
    assert [workspace.closed for workspace in provider.workspaces] == [True]


async def test_a_cancelled_reset_leaves_no_sandbox() -> None:
    scopes: list[anyio.CancelScope] = []

    async def hang(workspace: FakeWorkspace) -> None:
        scopes[0].cancel()
        await anyio.sleep_forever()

    provider = fake({"mkdir -p src": hang})

    async def play(scope: anyio.CancelScope) -> None:
        scopes.append(scope)
        async with AsyncDeepGym(provider=provider).session(ENV) as session:
            await session.reset()

    await _cancelled(play)
    assert [workspace.closed for workspace in provider.workspaces] == [True]


# Faults around a provider.


async def outcome(provider: Any) -> RunResult:
    return (await played(provider, "ls", TOUCH)).result


@pytest.mark.parametrize("fault", SESSION_FAULTS, ids=str)
async def test_each_session_fault_becomes_the_error_type_it_names(fault: SessionFault) -> None:
    answers = {"act": {"done"}, "host": None, "copy": None}[fault.verb]
    result = await outcome(FaultyProvider(fake({"ls": "a"}), fault, answers=answers))
    assert result.error_type == fault.error_type()
    if fault.verb == "act":
        result = await outcome(FaultyProvider(fake({"ls": "a"}), fault))  # in the set-up already
        assert (result.error_type, result.reward) == (fault.error_type(acted=False), None)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("looks", [False, True], ids=["asks", "looks"])
async def test_each_fault_strikes_the_verification_as_it_does_a_run(fault: Fault, looks: bool) -> None:
    judged = Behaviour.reports(1.0, asks=not looks, opens=looks)
    provider = FaultyProvider(fake({"ls": "a"}, judged=judged), fault)
    result = await outcome(provider)
    assert result.error_type == fault.error_type
    assert (result.reward is None) == (not result.has_verdict)


@pytest.mark.parametrize("fault", [Fault("provider", Phase.CLOSED), SessionFault("died", "close")], ids=str)
async def test_a_fault_at_a_close_is_no_error_type(fault: Any) -> None:
    assert (await outcome(FaultyProvider(fake({"ls": "a"}), fault))).reward == 1.0
    if isinstance(fault, SessionFault):
        assert fault.error_type() is None


async def test_a_fault_is_aimed_at_an_agents_work_by_its_hash() -> None:
    right = await outcome(fake({"ls": "a"}))
    fault = Fault("network", Phase.REPORTED)
    struck = FaultyProvider(fake({"ls": "a"}), fault, answers={right.answer_sha256})
    assert (await outcome(struck)).error_type == "network_error"
    assert struck.struck == {right.answer_sha256: 3} or struck.struck == {right.answer_sha256: 1}
    spared = FaultyProvider(fake({"ls": "a"}), fault, answers={"0" * 64})
    assert (await outcome(spared)).reward == 1.0
    copied = FaultyProvider(fake({"ls": "a"}), SessionFault("network", "copy"), answers={right.answer_sha256})
    assert (await outcome(copied)).error_type == "network_error"


@pytest.mark.parametrize("verb", ["host", "close"])
def test_a_fault_before_any_act_cannot_be_aimed(verb: Any) -> None:
    with pytest.raises(ValueError, match="no answer is known"):
        FaultyProvider(FakeProvider(), SessionFault("network", verb), answers={"ls"})


async def test_a_fault_that_passes_before_the_agent_acts_is_tried_again() -> None:
    for fault, answers in ((SessionFault("died", "host"), None), (SessionFault("bug", "act"), {"notes.txt"})):
        provider = FaultyProvider(fake({"ls": "a"}), fault, answers=answers, times=1)
        assert (await outcome(provider)).reward == 1.0
        assert sum(provider.struck.values()) == 1


async def test_a_sandbox_that_is_gone_stays_gone() -> None:
    provider = FaultyProvider(fake(), SessionFault("died", "act"), times=1)
    workspace = await provider.host(Place())
    for _ in range(2):
        with pytest.raises(SandboxDiedError):
            await workspace.act(Act("bash", b"ls"))
    with pytest.raises(SandboxDiedError):
        await workspace.copy(last=True, room=1, files=1)


async def test_session_faults_leave_runs_alone() -> None:
    provider = FaultyProvider(FakeProvider({"x": lambda: 1}), SessionFault("network", "act"))
    sandbox = await provider.open(Spec())
    process = await sandbox.start(Job("solution", b"x", requests=b'{"id":1,"a":[]}\n'))
    assert await process.line(1.0) == b'{"id":1,"v":1}'
