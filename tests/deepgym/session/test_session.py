"""What a session is: when what may be called, what ends an episode, and what each call then says."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.environments import Program
from deepgym.environments.tools import ToolCall
from deepgym.exceptions import (
    InvalidEnvironmentError,
    SandboxError,
    SessionError,
    UnknownNameError,
    VerifierError,
)
from deepgym.models import RunResult
from deepgym.session import AsyncSession, Observation

pytestmark = pytest.mark.local_sandbox

PASSES_WHEN_DONE = "def verify(work):\n    return work.exists('done')\n"


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "trio":
        pytest.importorskip("trio")
    found: str = request.param
    return found


# An episode.


def test_an_episode_begins_with_the_task_and_ends_with_a_verdict(
    dg: DeepGym, environment: Callable[..., Any]
) -> None:
    env = environment(PASSES_WHEN_DONE)
    with dg.session(env) as session:
        assert (session.id, session.done, session.ended, session.result) == (None, False, None, None)
        first = session.reset()
        assert first == Observation(text="do it")
        assert session.id is not None
        assert not session.done
        seen = session.step({"name": "bash", "arguments": {"command": "touch done; echo hi"}})
        assert (seen.text, seen.exit_code, seen.done) == ("hi\n", 0, False)
        result = session.score()
        assert (result.score, result.passed, result.has_verdict) == (1.0, True, True)
        assert (result.env_name, result.env_digest, result.sandbox_id) == ("test", env.digest, session.id)
        assert result.isolation == "namespaces"
        assert (session.done, session.ended, session.result) == (True, "submitted", result)
    assert session.result == result
    assert RunResult.model_validate_json(result.model_dump_json()) == result


def test_the_async_session_is_the_same(backend: str, environment: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            AsyncDeepGym(slots=1) as adg,
            adg.session(environment(PASSES_WHEN_DONE), seed=7) as session,
        ):
            assert isinstance(session, AsyncSession)
            assert (await session.reset()).text == "do it"
            assert (await session.step("touch done; echo hi")).text == "hi\n"
            result = await session.score()
            assert result.passed
            assert result.seed == session.seed == 7

    anyio.run(main, backend=backend)


def test_an_environment_may_be_given_by_name_and_a_wrong_one_is_refused(dg: DeepGym) -> None:
    from deepgym.environments.registry import load_environment

    with pytest.raises(UnknownNameError):
        dg.session("no_such_environment")
    with pytest.raises(InvalidEnvironmentError, match="answered at once"):
        dg.session("coin_change")
    with pytest.raises(TypeError, match="answered at once"):
        dg.session(load_environment("coin_change"))  # type: ignore[arg-type]
    for seed in (-1, 1 << 63, True):
        with pytest.raises(ValueError, match="seed must be"):
            dg.session("no_matter", seed=seed)


def test_tools_are_described_by_schemas_and_only_those_of_the_environment(
    dg: DeepGym, environment: Callable[..., Any]
) -> None:
    session = dg.session(environment(tools=("bash", "submit")))
    assert [tool["function"]["name"] for tool in session.tools] == ["bash", "submit"]
    assert session.tools[0]["function"]["parameters"]["required"] == ["command"]


@pytest.mark.parametrize(
    "action",
    [
        "echo hi",
        ToolCall(name="bash", arguments={"command": "echo hi"}),
        {"name": "bash", "arguments": {"command": "echo hi"}},
        {"name": "bash", "arguments": '{"command": "echo hi"}'},
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "echo hi"}'}},
        {"name": "python", "arguments": {"code": "print('hi')"}},
    ],
    ids=lambda action: type(action).__name__,
)
def test_an_action_may_have_any_of_these_forms(agent: Any, action: Any) -> None:
    assert agent.session.step(action).text == "hi\n"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (None, "not NoneType"),
        (5, "not int"),
        ([], "not list"),
        (b"ls", "not bytes"),
        ({}, "needs a name"),
        ({"name": 5}, "needs a name"),
        ({"function": "bash"}, "needs a name"),
        ({"name": "shell", "arguments": {}}, "no tool 'shell'; the tools are bash, python"),
        ({"name": "bash"}, "command is missing"),
        ({"name": "bash", "arguments": {"cmd": "ls"}}, "cmd isn't an argument"),
        ({"name": "bash", "arguments": {"command": 5}}, "command"),
        ({"name": "bash", "arguments": {"command": ["ls"]}}, "command"),
        ({"name": "bash", "arguments": "ls"}, "aren't JSON"),
        ({"name": "bash", "arguments": "[]"}, "must be an object"),
        ({"name": "bash", "arguments": "[" * 100_000}, "bash"),
        ({"name": "submit", "arguments": {"answer": 42}}, "answer isn't an argument"),
        ({"name": "write_file", "arguments": {"path": "", "content": "x"}}, "path"),
        (ToolCall(name="bash", arguments={"command": None}), "command"),
        ({"name": "x" * 5000}, "no tool"),
        ({"name": "\udcff"}, "no tool"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_valid_call_is_told_counts_as_a_step_and_ends_nothing(
    agent: Any, action: Any, says: str
) -> None:
    seen = agent.session.step(action)
    assert says in seen.text
    assert (seen.invalid, seen.done, seen.exit_code) == (True, False, None)
    assert len(seen.text) < 3000
    assert Observation.model_validate_json(seen.model_dump_json()) == seen
    assert agent.session.steps == 1
    assert agent("echo next").text == "next\n"


def test_a_tool_that_the_environment_hasnt_is_no_tool(play: Callable[..., Any]) -> None:
    agent = play(tools=("bash",))
    assert agent.python("1").invalid
    assert agent.session.step({"name": "submit", "arguments": {}}).invalid
    assert not agent.session.done


def test_observations_of_what_was_run_survive_json(agent: Any) -> None:
    for seen in (agent("printf '\\xff\\x00'; exit 3"), agent.read("none"), agent.python("print('\\ud800')")):
        assert Observation.model_validate_json(seen.model_dump_json()) == seen


# The end of an episode.


def refused(session: Any, call: str, says: str) -> None:
    calls = {"step": lambda: session.step("ls"), "score": session.score}
    with pytest.raises(SessionError, match=says):
        calls[call]()


def test_nothing_but_reset_can_come_first(dg: DeepGym, environment: Callable[..., Any]) -> None:
    with dg.session(environment()) as session:
        refused(session, "step", "call reset")
        refused(session, "score", "call reset")
        assert session.session_seconds == session.agent_seconds == 0.0
        session.reset()
        session.step("true")


def test_submit_ends_the_episode_and_keeps_what_is_there(play: Callable[..., Any]) -> None:
    agent = play(PASSES_WHEN_DONE)
    agent("touch done; (sleep 0.2; rm done) &")
    seen = agent.session.step({"name": "submit", "arguments": {}})
    assert (seen.done, seen.ended, seen.invalid) == (True, "submitted", False)
    assert agent.session.done
    refused(agent.session, "step", r"over \(submitted\); call score")
    assert agent.score().passed
    refused(agent.session, "step", "over")


def test_the_last_step_that_is_allowed_is_done_and_says_so(play: Callable[..., Any]) -> None:
    agent = play(PASSES_WHEN_DONE, steps=3)
    assert not agent("true").done
    assert not agent.session.step(None).done
    seen = agent("touch done; echo last")
    assert seen.text.startswith("last\n")
    assert (seen.done, seen.ended) == (True, "steps")
    assert "last step is used up" in seen.text
    refused(agent.session, "step", "steps")
    assert agent.score().passed
    assert agent.session.ended == "steps"


def test_an_invalid_call_may_be_the_last_step(play: Callable[..., Any]) -> None:
    agent = play(steps=1)
    seen = agent.session.step({"name": "none"})
    assert (seen.invalid, seen.done, seen.ended) == (True, True, "steps")
    assert agent.score().passed


def test_time_for_all_actions_together_runs_out(play: Callable[..., Any]) -> None:
    agent = play(actions=1.0, step=5.0)
    assert not agent("sleep 0.1").done
    time.sleep(1.0)
    assert not agent("true").done, "the time in which the agent thinks isn't counted"
    seen = agent("sleep 1; echo late")
    assert (seen.done, seen.ended) == (True, "time")
    assert "time for the episode's actions is used up" in seen.text
    assert agent.session.agent_seconds >= 1.0
    assert agent.session.session_seconds > agent.session.agent_seconds
    refused(agent.session, "step", "time")
    assert agent.score().passed


def test_one_step_gets_no_more_than_what_is_left_for_all(play: Callable[..., Any]) -> None:
    agent = play(actions=0.5, step=5.0)
    seen = agent("sleep 4; echo late")
    assert seen.timed_out
    assert (seen.done, seen.ended) == (True, "time")
    assert "late" not in seen.text


def test_seconds_stand_still_once_the_episode_is_over(agent: Any) -> None:
    agent("sleep 0.05")
    agent.score()
    session = agent.session
    before = (session.agent_seconds, session.session_seconds)
    time.sleep(0.05)
    assert (session.agent_seconds, session.session_seconds) == before
    assert 0.05 <= before[0] <= before[1]


def test_waiting_for_a_core_isnt_the_agents_time(
    local_sandbox: None, environment: Callable[..., Any]
) -> None:
    """Two steps on one slot: the second waits for the first, and that isn't counted."""

    async def main() -> None:
        async with AsyncDeepGym(slots=1) as adg:
            sessions = [adg.session(environment()) for _ in range(2)]
            for session in sessions:
                await session.reset()
            began = time.monotonic()
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(session.step, "sleep 0.3")
            # One after the other, so that together they took no longer than both.
            assert 0.6 <= sum(session.agent_seconds for session in sessions) <= time.monotonic() - began
            for session in sessions:
                await session.close()

    anyio.run(main)


def test_a_closed_session_says_so(play: Callable[..., Any]) -> None:
    agent = play()
    agent("true")
    agent.session.close()
    agent.session.close()
    refused(agent.session, "step", "closed: open another")
    refused(agent.session, "score", "closed: open another")
    with pytest.raises(SessionError, match="closed; open another"):
        agent.session.reset()


def test_a_verdict_outlives_its_session(play: Callable[..., Any]) -> None:
    agent = play()
    result = agent.score()
    agent.session.close()
    assert agent.score() == agent.session.result == result


# Scores.


def test_a_score_is_given_once_and_stays(play: Callable[..., Any]) -> None:
    agent = play(
        "import random\ndef verify(work):\n    work.files()\n    import os\n    return int.from_bytes(os.urandom(4), 'little') / 2**32"
    )
    first = agent.score()
    assert 0.0 < first.score < 1.0
    assert agent.score() == first


def test_an_episode_without_a_step_is_scored(play: Callable[..., Any]) -> None:
    assert play(PASSES_WHEN_DONE, files={"done": ""}).score().passed
    assert not play(PASSES_WHEN_DONE).score().passed


def test_a_score_ends_what_runs_before_it_looks(play: Callable[..., Any]) -> None:
    """A background job can't change what is judged after it was taken."""
    verify = "import time\ndef verify(work):\n    first = work.files()\n    time.sleep(0.2)\n    return 'late' not in work.files() and first == work.files()\n"
    agent = play(verify)
    agent("(trap '' TERM INT HUP; sleep 0.1; touch late; while :; do touch x$RANDOM; done) & disown")
    assert agent.score().passed


def test_a_score_takes_the_sandbox_away(dg: DeepGym, play: Callable[..., Any]) -> None:
    agent = play()
    pool = dg.provider._open  # type: ignore[attr-defined]
    before = len(pool.standing)
    agent.score()
    assert len(pool.standing) == before - 1


def test_partial_scores_and_details_come_through(play: Callable[..., Any]) -> None:
    verify = """
def verify(work):
    work.files()
    return {"score": 0.25, "passed": False, "reward_components": {"a": 0.5}, "details": {"x": [1, None]},
            "cases": [{"name": "one", "passed": True, "score": 1.0}]}
"""
    result = play(verify).score()
    assert (result.score, result.passed, result.has_verdict) == (0.25, False, True)
    assert result.reward_components == {"a": 0.5}
    assert result.details == {"x": [1, None]}
    assert [case.name for case in result.cases] == ["one"]


# Again.


def test_reset_gives_a_fresh_sandbox_and_clears_everything(play: Callable[..., Any]) -> None:
    agent = play(PASSES_WHEN_DONE)
    session = agent.session
    agent("touch done; touch /tmp/left; x=1; sleep 1000 &")
    agent.session.step(None)
    first, seconds = session.id, session.agent_seconds
    assert seconds > 0
    assert session.reset() == Observation(text="do it")
    assert session.id != first
    assert (session.steps, session.agent_seconds, session.done, session.result) == (0, 0.0, False, None)
    assert agent('ls -A . /tmp ~; echo "[$x]"; ps -e | grep -c sleep').text.endswith(
        "[]\n0\n[exit status 1]\n"
    )
    assert not agent.score().passed
    session.reset()
    agent("touch done")
    assert agent.score().passed


def test_a_session_may_be_reset_at_any_point(play: Callable[..., Any]) -> None:
    agent = play(steps=1)
    for _ in range(2):
        assert agent("true").ended == "steps"
        agent.session.reset()
    assert agent.session.step({"name": "submit", "arguments": {}}).done
    agent.session.reset()
    assert agent.score().passed
    agent.session.reset()
    assert not agent.session.done


def test_an_episode_whose_sandbox_was_lost_can_be_followed_by_another(
    dg: DeepGym, play: Callable[..., Any]
) -> None:
    agent = play()
    agent("true")
    (standing,) = [one for one in dg.provider._open.standing if one.id == agent.session.id]  # type: ignore[attr-defined]
    _kill(standing)
    seen = agent("echo hi")
    assert (seen.done, seen.ended) == (True, "sandbox")
    assert "The sandbox has ended" in seen.text
    refused(agent.session, "step", "sandbox")
    result = agent.score()
    assert (result.error_type, result.score, result.has_verdict) == ("policy_sandbox_failure", 0.0, True)
    assert result.isolation == "namespaces"
    agent.session.reset()
    assert agent("echo hi").text == "hi\n"


def _kill(standing: Any) -> None:
    import select
    import signal

    pidfd = standing._zygote.pidfd
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    assert ended.poll(10_000)


def test_a_sandbox_that_dies_before_its_agent_acted_is_ours(dg: DeepGym, play: Callable[..., Any]) -> None:
    agent = play()
    (standing,) = [one for one in dg.provider._open.standing if one.id == agent.session.id]  # type: ignore[attr-defined]
    _kill(standing)
    with pytest.raises(SandboxError) as caught:
        agent.score()
    assert caught.value.result is not None
    assert not caught.value.result.has_verdict


def test_a_sandbox_that_dies_between_the_last_step_and_the_score_is_the_agents_zero(
    dg: DeepGym, play: Callable[..., Any]
) -> None:
    agent = play()
    agent("true")
    (standing,) = [one for one in dg.provider._open.standing if one.id == agent.session.id]  # type: ignore[attr-defined]
    _kill(standing)
    assert agent.score().error_type == "policy_sandbox_failure"
    assert agent.score().has_verdict


# Seeds and set-up.

SHOWS_SEED = "from deepgym_verify import rng, seed\ndef verify(work):\n    return {'passed': work.text('seed') == str(seed), 'details': {'seed': seed, 'drawn': rng.random()}}\n"


def test_the_seed_reaches_the_set_up_and_the_verifier_and_the_agent_isnt_told(
    dg: DeepGym, environment: Callable[..., Any]
) -> None:
    env = environment(SHOWS_SEED, setup="printf '%s' $DEEPGYM_SEED > seed", seed=5)
    drawn = []
    for given, reset, expected in (
        (None, None, 5),
        (9, None, 9),
        (9, 11, 11),
        (0, None, 0),
        ((1 << 63) - 1, None, (1 << 63) - 1),
    ):
        with dg.session(env, seed=given) as session:
            session.reset(reset)
            assert session.seed == expected
            assert session.step('echo "[$DEEPGYM_SEED]"; env | grep -c SEED').text.startswith("[]\n0\n")
            result = session.score()
            assert result.passed
            assert result.seed == result.details["seed"] == expected
            drawn.append(result.details["drawn"])
    assert len(set(drawn)) == 5


def test_a_seed_given_to_reset_stays(dg: DeepGym, environment: Callable[..., Any]) -> None:
    with dg.session(environment(seed=3)) as session:
        session.reset(8)
        session.reset()
        assert session.seed == 8
        for seed in (-1, 1 << 63):
            with pytest.raises(ValueError, match="seed"):
                session.reset(seed)


def test_what_the_set_up_leaves_running_tells_no_seed(play: Callable[..., Any]) -> None:
    """Who knows it knows what the verifier will draw."""
    agent = play(setup="(sleep 1000 &); echo $DEEPGYM_SEED > seed", seed=424242)
    assert agent("until ps -e -o comm= | grep -x sleep; do :; done; rm seed").text == "sleep\n"
    assert "424242" not in agent("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null").text


def test_files_and_the_set_up_script_prepare_the_work_directory(play: Callable[..., Any]) -> None:
    agent = play(
        files={"a.txt": "one\n", "src/b.py": "x = 'ż'\n", "odd name": ""},
        setup="pwd; mkdir made; cat a.txt > made/copy; chmod +x src/b.py; echo ran > /tmp/ran; (sleep 1000 &); cd /",
    )
    assert agent("pwd; cat a.txt made/copy src/b.py /tmp/ran; ls -A").text == (
        "/box/work\none\none\nx = 'ż'\nran\na.txt\nmade\nodd name\nsrc\n"
    )
    assert agent("until ps -e -o comm= | grep -x sleep; do :; done").text == "sleep\n"
    assert agent.session.agent_seconds < 5


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo some output; echo more >&2; false; echo never", "status 1: some output\nmore"),
        ("echo some output; exit 3", "status 3: some output"),
        ("echo x; kill -9 $$", "status -9: x"),
        ("echo (", "syntax error"),
        ("no_such_program", "not found"),
    ],
)
def test_a_set_up_that_fails_raises_with_its_output_and_isnt_tried_again(
    dg: DeepGym, environment: Callable[..., Any], script: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = 0
    real = dg.provider.host  # type: ignore[attr-defined]

    async def host(place: Any) -> Any:
        nonlocal opened
        opened += 1
        return await real(place)

    monkeypatch.setattr(dg.provider, "host", host)
    with dg.session(environment(setup=script)) as session:
        with pytest.raises(SandboxError, match="the set-up of environment 'test' failed") as caught:
            session.reset()
        assert says in str(caught.value)
        assert opened == 1
        assert caught.value.result is not None
        assert (caught.value.result.has_verdict, caught.value.result.env_name) == (False, "test")
        for call in (lambda: session.step("ls"), session.score):
            with pytest.raises(SandboxError, match="the set-up"):
                call()
        assert session.result is None
    assert len(dg.provider._open.standing) == 0  # type: ignore[attr-defined]


def test_a_set_up_that_doesnt_end_is_ended(dg: DeepGym, environment: Callable[..., Any]) -> None:
    env = environment(setup="echo begun; sleep 100")
    env = env.model_copy(update={"limits": env.limits.model_copy(update={"setup": 0.3})})
    with dg.session(env) as session, pytest.raises(SandboxError, match="no end in time: begun"):
        session.reset()


def test_a_file_that_cant_be_placed_is_named(dg: DeepGym, environment: Callable[..., Any]) -> None:
    with (
        dg.session(environment(files={"big": "x" * 200_000}, file_size=1000)) as session,
        pytest.raises(SandboxError, match="the file 'big' failed"),
    ):
        session.reset()


def test_a_program_that_is_missing_is_named(dg: DeepGym, environment: Callable[..., Any]) -> None:
    with dg.session(environment(requires=("cat", "no-such-program"))) as session:
        with pytest.raises(SandboxError, match="no program 'no-such-program'; install it"):
            session.reset()
        with pytest.raises(SandboxError, match="no-such-program"):
            session.step("ls")


def test_programs_that_are_there_are_no_trouble(play: Callable[..., Any]) -> None:
    assert play(requires=("cat", "python3", "bash")).score().passed


# A verifier after each step.


def test_a_step_verifier_judges_a_copy_after_each_step_and_the_agents_processes_go_on(
    play: Callable[..., Any],
) -> None:
    counts = "def verify(work):\n    return min(1.0, len(work.files()) / 4)\n"
    agent = play(PASSES_WHEN_DONE, step_verify=Program(source=counts))
    first = agent("touch a; x=1; (while [ ! -e go ]; do sleep 0.01; done; touch done) &")
    assert first.result is not None
    assert (first.result.score, first.result.has_verdict) == (0.25, True)
    second = agent('touch b go; while [ ! -e done ]; do sleep 0.01; done; echo "$x"')
    assert second.text.endswith("1\n")
    assert second.result is not None
    assert second.result.score == 1.0
    assert not second.done
    assert agent.session.step(None).result is None
    final = agent.score()
    assert final.passed
    assert final.env_digest == second.result.env_digest == agent.session.env.digest


def test_a_step_verifier_that_fails_has_no_verdict_and_the_episode_goes_on(play: Callable[..., Any]) -> None:
    agent = play(step_verify=Program(source="raise RuntimeError('broken')"))
    seen = agent("echo hi")
    assert seen.text == "hi\n"
    assert seen.result is not None
    assert not seen.result.has_verdict
    assert not seen.done
    assert agent.score().passed


# Verifiers that fail.


def test_a_verifier_that_couldnt_judge_raises_and_may_be_asked_again(
    dg: DeepGym, environment: Callable[..., Any]
) -> None:
    with dg.session(environment("raise RuntimeError('broken')")) as session:
        session.reset()
        session.step("true")
        for _ in range(2):
            with pytest.raises(VerifierError, match="broken") as caught:
                session.score()
            assert caught.value.result is not None
            assert not caught.value.result.has_verdict
            assert caught.value.result.sandbox_id == session.id
        assert session.result is None
        assert session.ended == "submitted"


# Many at once.


def test_steps_of_one_session_queue_up(backend: str, environment: Callable[..., Any]) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2) as adg, adg.session(environment()) as session:
            await session.reset()
            texts: list[str] = []

            async def one(number: int) -> None:
                seen = await session.step(f"n=$((n + 1)); sleep 0.01; echo $n > {number}; echo $n")
                texts.append(seen.text)

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(one, number)
            assert sorted(texts) == [f"{number}\n" for number in range(1, 9)]
            assert session.steps == 8

    anyio.run(main, backend=backend)


def test_a_score_waits_for_the_step_before_it(backend: str, environment: Callable[..., Any]) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2) as adg, adg.session(environment(PASSES_WHEN_DONE)) as session:
            await session.reset()
            results: list[RunResult] = []

            async def score() -> None:
                results.append(await session.score())

            async with anyio.create_task_group() as group:
                group.start_soon(session.step, "sleep 0.2; touch done")
                await anyio.sleep(0.05)
                group.start_soon(score)
                group.start_soon(score)
            assert [result.passed for result in results] == [True, True]

    anyio.run(main, backend=backend)


def test_many_sessions_at_once_keep_apart(backend: str, environment: Callable[..., Any]) -> None:
    async def main() -> None:
        verify = (
            "from deepgym_verify import seed\ndef verify(work):\n    return work.text('n') == f'{seed}\\n'\n"
        )
        async with AsyncDeepGym(slots=3) as adg:

            async def play(number: int) -> None:
                async with adg.session(environment(verify), seed=number) as session:
                    await session.reset()
                    await session.step(f"n={number}; sleep 0.02")
                    assert (await session.step("echo $n > n; cat n; ls")).text == f"{number}\nn\n"
                    assert (await session.score()).passed

            async with anyio.create_task_group() as group:
                for number in range(12):
                    group.start_soon(play, number)

    anyio.run(main, backend=backend)


def test_a_third_session_of_two_waits_until_one_is_closed(
    backend: str, environment: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=2, max_sessions=2) as adg:
            sessions = [adg.session(environment()) for _ in range(4)]
            for session in sessions[:2]:
                await session.reset()
            opened = anyio.Event()

            async def third() -> None:
                await sessions[2].reset()
                opened.set()

            async with anyio.create_task_group() as group:
                group.start_soon(third)
                await anyio.sleep(0.1)
                assert not opened.is_set()
                assert sessions[2].id is None
                # One that gives up waiting is in nobody's way.
                with anyio.move_on_after(0.05) as scope:
                    await sessions[3].reset()
                assert scope.cancelled_caught
                await sessions[0].close()
                with anyio.fail_after(20):
                    await opened.wait()
            assert (await sessions[2].step("echo hi")).text == "hi\n"
            await sessions[1].score()
            with anyio.fail_after(20):
                await sessions[3].reset()
            for session in sessions:
                await session.close()
            assert adg.provider._open.room.inside == 0  # type: ignore[attr-defined]

    anyio.run(main, backend=backend)


def test_a_session_that_is_closed_while_it_opens_stays_closed(
    backend: str, environment: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with AsyncDeepGym(slots=1, max_sessions=1) as adg:
            first, second = (adg.session(environment()) for _ in range(2))
            await first.reset()
            pool = adg.provider._open  # type: ignore[attr-defined]

            async def reset() -> None:
                with pytest.raises(SessionError, match="closed"):
                    await second.reset()

            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(reset)
                    while not pool.room._waiting:
                        await anyio.sleep(0.005)
                    await second.close()
                    await first.close()
            with pytest.raises(SessionError, match="closed"):
                await second.step("ls")
            assert (len(pool.standing), pool.room.inside) == (0, 0)

    anyio.run(main, backend=backend)


def test_one_session_can_be_reset_where_only_one_may_be_open(environment: Callable[..., Any]) -> None:
    with DeepGym(slots=1, max_sessions=1) as client, client.session(environment()) as session:
        for _ in range(3):
            session.reset()
            assert session.step("echo hi").text == "hi\n"


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_session_must_be_allowed(count: int) -> None:
    with pytest.raises(ValueError, match="at least one session"):
        DeepGym(max_sessions=count)


def test_a_forgotten_session_gives_its_place_back(environment: Callable[..., Any]) -> None:
    with DeepGym(slots=1, max_sessions=1) as client:
        client.session(environment()).reset()
        gc.collect()
        with client.session(environment()) as session:
            session.reset()
            assert session.step("echo hi").text == "hi\n"


def test_a_session_of_a_provider_that_has_none_says_so(environment: Callable[..., Any]) -> None:
    class Plain:
        name = "plain"

        async def close(self) -> None:
            pass

    with DeepGym(provider=Plain()) as client, client.session(environment()) as session:  # type: ignore[arg-type]
        with pytest.raises(SandboxError, match="'plain' has no sandboxes for sessions") as caught:
            session.reset()
        assert caught.value.result is not None
        assert json.loads(caught.value.result.model_dump_json())["has_verdict"] is False
