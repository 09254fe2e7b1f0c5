from __future__ import annotations

import gc
import importlib
import inspect
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, load_multi_turn_environment
from deepgym.environments.tools import TOOL_NAMES, tool_schemas
from deepgym.exceptions import InvalidEnvironmentError, SandboxDiedError, UnknownNameError
from deepgym.models import RunResult
from deepgym.providers.local import LocalProvider
from deepgym.testing import (
    SESSION_FAULTS,
    Behaviour,
    FakeProvider,
    FakeSessions,
    Fault,
    FaultyProvider,
    SessionFault,
)
from deepgym_trl.composite import CompositeReward, gate, unmasking
from deepgym_trl.episodes import EpisodeFactory, EpisodeReward, episode_reward, make_environment_factory
from deepgym_trl.episodes_calls import OverdueError, Patience
from deepgym_trl.episodes_play import OVER, UNAVAILABLE
from deepgym_trl.versions import installed

PROMPT = [{"role": "user", "content": ""}]
VERIFY = "def verify(work):\n    return work.text('answer.txt') == '42'\n"
NEW_TRL = tuple(map(int, (installed() or "0.0").split(".")[:2])) >= (1, 8)


def environment(name: str = "answer", /, **fields: Any) -> MultiTurnEnvironment:
    limits = {"step": 5.0, "actions": 500.0, "steps": 20, "setup": 5.0, "verify": 5.0}
    limits.update({key: fields.pop(key) for key in list(fields) if key in EpisodeLimits.model_fields})
    return MultiTurnEnvironment(
        name=name,
        task=f"write 42 into answer.txt ({name})",
        verify=Program(source=VERIFY),
        limits=EpisodeLimits(**limits),
        **fields,
    )


ANSWER = environment()


def right(files: dict[str, bytes]) -> bool:
    return files.get("answer.txt") == b"42"


def scripted(acts: Any = None, **options: Any) -> FakeProvider:
    return FakeProvider(sessions=FakeSessions(acts or {}, **{"judged": right, **options}))


@pytest.fixture
def made() -> Iterator[Callable[..., EpisodeFactory]]:
    """``made(provider, **options)``: a factory for the environment ``answer``, closed afterwards."""
    opened: list[EpisodeFactory] = []

    def make(provider: Any = None, env: Any = ANSWER, **options: Any) -> EpisodeFactory:
        client = DeepGym(provider=provider or scripted())
        opened.append(make_environment_factory(env, dg=client, **options))
        return opened[-1]

    yield make
    for factory in opened:
        factory.close()
        factory.dg.close()


def reset(*environments: Any, **row: Any) -> None:
    for one in environments:
        one.reset(prompt=PROMPT, **row)


def solve(env: Any) -> None:
    env.write_file(path="answer.txt", content="42")


def rewards(reward: Any, *environments: Any, **options: Any) -> list[float | None]:
    rows = len(environments)
    found: list[float | None] = reward([PROMPT] * rows, [""] * rows, environments=environments, **options)
    return found


def result_of(env: Any) -> RunResult:
    (result,) = episode_reward().results([PROMPT], [""], environments=[env]).results
    return result


class Log:
    def __init__(self) -> None:
        self.metrics: dict[str, list[float]] = {}
        self.columns: dict[str, list[Any]] = {}

    def __call__(self, reward: Any, *environments: Any) -> list[float | None]:
        return rewards(reward, *environments, log_metric=self.metric, log_extra=self.columns.__setitem__)

    def metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(value)


# What TRL sees


@pytest.mark.parametrize("names", [TOOL_NAMES, ("bash", "submit")])
def test_the_policy_is_shown_the_very_tools_that_a_session_offers(made: Any, names: Any) -> None:
    get_json_schema = pytest.importorskip("transformers.utils").get_json_schema
    env = made(env=environment(tools=names))()
    for schema in tool_schemas(names):
        shown = get_json_schema(getattr(env, schema["function"]["name"]))
        parameters = shown["function"]["parameters"]
        assert schema["function"]["parameters"].pop("additionalProperties") is False
        parameters.setdefault("required", [])
        assert shown == schema


def test_reset_and_the_tools_are_all_that_is_public_on_the_class_and_on_the_instance(made: Any) -> None:
    env = made()()
    on_class = [name for name, _ in inspect.getmembers(type(env), inspect.isfunction) if name[0] != "_"]
    on_instance = [name for name, _ in inspect.getmembers(env) if name[0] != "_"]
    assert on_class == on_instance == sorted([*TOOL_NAMES, "reset"])
    assert not inspect.iscoroutinefunction(env.bash)
    assert (env.bash.__name__, str(inspect.signature(env.bash))) == ("bash", "(command: str)")


def test_of_several_environments_the_policy_is_shown_every_tool_and_is_told_what_one_lacks(made: Any) -> None:
    plain, shell = environment("plain", tools=("write_file",)), environment("shell", tools=("bash", "submit"))
    factory = made(env=[plain, shell])
    assert factory.tools == ("bash", "write_file", "submit")
    env = factory()
    assert env.reset(prompt=PROMPT, env_id="plain") == plain.task
    assert "there is no tool 'bash'; the tools are write_file" in env.bash(command="ls")
    assert env._deepgym_episode._session.steps == 1
    assert env.reset(prompt=PROMPT, env_id="shell") == shell.task
    assert "there is no tool 'write_file'" in env.write_file(path="a", content="b")


def test_the_task_is_added_unless_the_prompt_has_it(made: Any) -> None:
    env, task = made()(), ANSWER.task
    assert env.reset() == task
    assert env.reset(prompt=[{"role": "user", "content": "Go:"}]) == f"\n\n{task}"
    assert env.reset(prompt=[{"role": "user", "content": [{"type": "text", "text": "Go:"}]}]) == f"\n\n{task}"
    assert env.reset(prompt="Go:") == f"\n\n{task}"
    assert env.reset(prompt=f"Go: {task}") is None
    assert env.reset(prompt=[{"role": "user", "content": f"Go. {task}\n"}]) is None
    assert env.reset(prompt=[{"role": "system", "content": task}, {"role": "user", "content": "!"}]) is None
    assert env.reset(prompt=[{"role": "user", "content": [{"type": "text", "text": task}]}]) is None


@pytest.mark.skipif(not NEW_TRL, reason="this TRL asks no environment for its reward")
def test_an_environment_that_owns_its_reward_gives_it_itself(made: Any) -> None:
    factory = made(scripted({"outage": OSError("no route")}), owns_reward=True)
    solved, lazy, unused = factory(), factory(), factory()
    reset(solved, lazy)
    solve(solved)
    assert (solved.get_reward(), lazy.get_reward(), unused.get_reward()) == (1.0, 0.0, None)
    assert type(solved) is type(lazy)
    assert type(solved).__name__ == "deepgym"
    assert [one.closed for one in factory.dg.provider.workspaces] == [True, True]


@pytest.mark.skipif(NEW_TRL, reason="this TRL knows get_reward")
def test_a_trl_that_would_show_get_reward_as_a_tool_is_refused() -> None:
    with pytest.raises(ValueError, match=r"owns_reward needs TRL 1\.8"):
        make_environment_factory(ANSWER, owns_reward=True)


# Which environment a row is for


@pytest.mark.parametrize(
    ("env", "row", "error", "text"),
    [
        ([ANSWER], {}, ValueError, "column 'env_id' must name"),
        ([ANSWER], {"env_id": 3}, ValueError, "must name"),
        ([ANSWER], {"env_id": "anser"}, UnknownNameError, "did you mean 'answer'"),
        (None, {"env_id": "log_analysys"}, UnknownNameError, "did you mean 'log_analysis'"),
        (None, {"env_id": "two_sum"}, InvalidEnvironmentError, "worked on in steps"),
    ],
)
def test_a_row_for_no_environment_is_the_users_error(
    made: Any, env: Any, row: Any, error: Any, text: str
) -> None:
    factory = made(env=env)
    for check in (factory.check_row, factory.reward_fn().check_row, lambda row: factory().reset(**row)):
        with pytest.raises(error, match=text):
            check(row)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: make_environment_factory([]), ValueError),
        (lambda: make_environment_factory([ANSWER, environment(steps=1)]), ValueError),
        (lambda: make_environment_factory("nowhere"), UnknownNameError),
        (lambda: make_environment_factory("two_sum"), InvalidEnvironmentError),
        (lambda: make_environment_factory(dg=DeepGym(), max_sessions=3), ValueError),
        (lambda: episode_reward(deadline=100.0, ddp_timeout=120.0), ValueError),
        (lambda: episode_reward(deadline=0.0), ValueError),
        (lambda: make_environment_factory(ANSWER).reward_fn(deadline=40.0), ValueError),
    ],
)
def test_what_can_not_be_meant_is_refused(make: Any, error: Any) -> None:
    with pytest.raises(error):
        make()


def test_an_environment_that_does_not_fit_the_deadline_is_found_by_its_row() -> None:
    reward = make_environment_factory().reward_fn(deadline=50.0)
    with pytest.raises(ValueError, match="can't hold one grading"):
        reward.check_row({"env_id": "log_analysis"})
    assert reward.env_column == "env_id"


# The policy's own doing


def test_wrong_arguments_are_the_policys_and_cost_it_a_step(made: Any) -> None:
    factory = made(env=environment(steps=8))
    env = factory()
    reset(env)
    said = [
        env.bash(),
        env.bash(command=5),
        env.bash(cmd="ls"),
        env.bash("ls", "ls"),
        env.bash(self="ls"),
        env.write_file(path="", content=None),
        env.submit(now=True),
    ]
    assert all("Its arguments:" in text for text in said)
    assert env._deepgym_episode._session.steps == 7
    assert "last step is used up" in env.bash(command={"nested": [1]})
    assert env.bash(command="ls") == OVER
    assert rewards(factory.reward_fn(), env) == [0.0]


def test_after_the_end_a_call_is_told_so(made: Any) -> None:
    factory = made()
    submitted, graded = factory(), factory()
    reset(submitted, graded)
    solve(submitted)
    assert submitted.submit() == "The episode is over."
    assert submitted.bash(command="rm answer.txt") == submitted.submit() == OVER
    assert rewards(factory.reward_fn(), submitted, graded) == [1.0, 0.0]
    assert graded.bash(command="ls") == OVER


def test_a_rollout_that_broke_its_sandbox_is_a_zero_and_is_told(made: Any) -> None:
    factory = made(scripted({"boom": SandboxDiedError("gone")}))
    env = factory()
    reset(env)
    solve(env)
    assert env.bash(command="boom").startswith("The sandbox has ended.")
    assert env.bash(command="ls") == OVER
    assert rewards(factory.reward_fn(), env) == [0.0]
    assert result_of(env).error_type == "policy_sandbox_failure"


# Our failures


@pytest.mark.parametrize("fault", SESSION_FAULTS, ids=str)
def test_of_each_fault_comes_what_the_contract_says(made: Any, fault: SessionFault) -> None:
    faulty = FaultyProvider(scripted({"first": "done", "spin": "done"}), fault)
    factory = made(faulty)
    env = factory()
    reset(env)
    texts = [env.bash(command="first"), env.bash(command="spin")]
    result = result_of(env)
    assert result.error_type == fault.error_type()
    assert rewards(factory.reward_fn(), env) == [result.reward]
    assert (result.env_name, result.env_digest) == ("answer", ANSWER.digest)
    if fault.verb == "copy":
        assert texts == ["done", "done"]
    elif result.has_verdict:
        assert texts[1] == OVER
    else:
        assert texts == [UNAVAILABLE, UNAVAILABLE]


def test_an_outage_shows_the_policy_nothing_and_moves_no_sibling(made: Any) -> None:
    fault = SessionFault("provider", "act")
    factory = made(FaultyProvider(scripted({"make": "built"}), fault, answers={"make"}))
    lost, solved, lazy = factory(), factory(), factory()
    reset(lost, solved, lazy)
    solve(lost)
    solve(solved)
    assert lost.bash(command="make") == UNAVAILABLE
    assert lost.read_file(path="answer.txt") == lost.submit() == lost.bash() == UNAVAILABLE
    log = Log()
    assert log(factory.reward_fn(), lost, solved, lazy) == [None, 1.0, 0.0]
    assert log.metrics["deepgym/verdict_rate"] == [2 / 3]
    assert log.metrics["deepgym/no_verdict/provider_error"] == [1 / 3]
    assert log.metrics["deepgym/judged_mean_score"] == [1.0, 0.0]
    assert log.metrics["deepgym/samples"] == [3.0]
    assert log.columns["deepgym_verdict"] == ["none", "passed", "failed"]
    assert log.columns["deepgym_error"] == ["provider_error", "", ""]
    assert log.columns["deepgym_env"] == ["answer"] * 3


def test_a_verifier_that_our_side_fails_leaves_no_verdict(made: Any) -> None:
    factory = made(FaultyProvider(scripted(), Fault("network", Phase.OPENED)))
    env = factory()
    reset(env)
    solve(env)
    assert rewards(factory.reward_fn(), env) == [None]
    assert result_of(env).error_type == "network_error"


def test_a_verifier_that_says_it_failed_leaves_no_verdict(made: Any) -> None:
    factory = made(scripted(judged=Behaviour.crashes_verifier(2)))
    env = factory()
    reset(env)
    assert rewards(factory.reward_fn(), env) == [None]
    assert result_of(env).error_type == "verifier_error"


def test_a_reused_environment_is_clean_whatever_became_of_it(made: Any) -> None:
    provider = scripted({"boom": SandboxDiedError("gone"), "ls": "nothing"})
    faulty = FaultyProvider(provider, SessionFault("network", "act"), answers={"ls"}, times=1)
    factory = made(faulty)
    env, reward = factory(), factory.reward_fn()
    reset(env)
    assert env.bash(command="ls") == UNAVAILABLE
    assert rewards(reward, env) == [None]
    reset(env)
    assert env.bash(command="boom").startswith("The sandbox has ended.")
    assert rewards(reward, env) == [0.0]
    reset(env)
    solve(env)
    assert rewards(reward, env) == [1.0]
    reset(env)
    assert env.bash(command="ls") == "nothing"
    assert "No such file" in env.read_file(path="answer.txt")
    assert rewards(reward, env) == [0.0]
    assert [one.closed for one in provider.workspaces] == [True] * 4


def test_an_environment_that_was_never_reset_has_no_verdict_and_is_said(made: Any, caplog: Any) -> None:
    factory = made()
    env = factory()
    assert env.bash(command="ls") == UNAVAILABLE
    assert rewards(factory.reward_fn(), env) == [None]
    assert "no verdict for 1 of 1 episodes (sandbox_error 1)" in caplog.text
    assert "never reset" in caplog.text


def test_without_a_thread_to_be_had_there_is_no_verdict(made: Any, monkeypatch: Any) -> None:
    factory = made()
    opened, unopened = factory(), factory()
    reset(opened)
    solve(opened)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        reset(unopened)
        assert rewards(factory.reward_fn(), opened, unopened) == [None, None]
    assert unopened.bash(command="ls") == UNAVAILABLE
    assert {result_of(opened).error_type, result_of(unopened).error_type} == {"sandbox_error"}


# Hangs


async def forever(*_: Any) -> None:
    await anyio.sleep_forever()


SHORT = environment(step=0.2, setup=0.2, verify=0.2)


def test_a_step_that_hangs_ends_in_time_without_a_verdict(made: Any) -> None:
    factory = made(scripted({"hang": forever}), env=SHORT, patience=0.3)
    env, sibling = factory(), made()()
    reset(env, sibling)
    solve(sibling)
    assert env.bash(command="hang") == UNAVAILABLE
    assert rewards(factory.reward_fn(), env, sibling) == [None, 1.0]
    assert "a step wasn't over" in (result_of(env).error or "")
    assert result_of(env).error_type == "provider_error"


def test_after_a_call_that_hung_the_next_is_waited_for_with_less_patience(made: Any) -> None:
    factory = made(scripted({"hang": forever}), env=SHORT, patience=60.0)
    factory.patience._hung = True
    env = factory()
    assert factory.patience.seconds == 5.0
    reset(env)
    solve(env)
    assert factory.patience.seconds == 60.0
    assert rewards(factory.reward_fn(), env) == [1.0]


class Waiting:
    """A call that ends after ``seconds`` of a clock of its own, on which others end every ten."""

    def __init__(self, monkeypatch: Any, patience: Patience, seconds: float, others: int) -> None:
        self.now, self.seconds, self.others = 0.0, seconds, others
        self.future = self
        self.patience = patience
        monkeypatch.setattr("deepgym_trl.episodes_calls._now", lambda: self.now)

    def ends_within(self, seconds: float) -> bool:
        for _ in range(round(seconds)):
            if self.now >= self.seconds:
                return True
            self.now += 1
            if self.now % 10 == 0 and self.now <= 10 * self.others:
                self.patience.alive()
        return self.now >= self.seconds

    def result(self) -> str:
        return "done"


@pytest.mark.parametrize(
    ("seconds", "others", "over"),
    [(14, 0, None), (16, 0, 15), (44, 9, None), (46, 9, 45), (24, 1, None), (26, 1, 25)],
)
def test_a_call_is_waited_for_while_others_end_and_thrice_as_long_at_most(
    monkeypatch: Any, seconds: float, others: int, over: float | None
) -> None:
    patience = Patience(60.0)
    call: Any = Waiting(monkeypatch, patience, seconds, others)
    if over is None:
        assert patience.result(call, 15.0, "late", began=0.0) == "done"
        assert (patience.hangs, patience.seconds) == (0, 60.0)
        return
    with pytest.raises(OverdueError, match="late"):
        patience.result(call, 15.0, "late", began=0.0)
    assert (call.now, patience.hangs, patience.seconds) == (over, 1, 5.0)


def test_an_opening_that_hangs_ends_in_time_without_a_verdict(made: Any, monkeypatch: Any) -> None:
    provider = scripted()
    monkeypatch.setattr(provider, "host", forever)
    factory = made(provider, env=SHORT, patience=0.2)
    acting, idle = factory(), factory()
    reset(acting, idle)
    assert acting.bash(command="ls") == UNAVAILABLE
    assert rewards(factory.reward_fn(), acting, idle) == [None, None]
    assert "no sandbox was open" in (result_of(idle).error or "")


def test_gradings_that_hang_keep_no_other_from_being_graded(made: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("deepgym.integrations.episodes._COPYING", 0.1)
    monkeypatch.setattr("deepgym.integrations.episodes._MARGIN", 0.1)
    hanging = scripted()
    monkeypatch.setattr(hanging, "open", forever)
    stuck, fine = made(hanging, env=SHORT, patience=0.1), made(env=SHORT)
    first, second, third = stuck(), stuck(), fine()
    reset(first, second, third)
    solve(third)
    reward = episode_reward(max_parallel=1)
    assert rewards(reward, first, second, third) == [None, None, 1.0]
    assert "the judge hangs" in (result_of(first).error or "")


def test_the_deadline_holds_for_what_its_own_limits_would_allow(made: Any, monkeypatch: Any) -> None:
    hanging = scripted()
    monkeypatch.setattr(hanging, "open", forever)
    factory = made(hanging, patience=1000.0)
    monkeypatch.setattr("deepgym.integrations.episodes._COPYING", 0.0)
    env = factory()
    reset(env)
    reward = episode_reward()
    reward.deadline, reward.grace = 15.0, -14.8
    assert rewards(reward, env) == [None]
    assert result_of(env).error_type == "provider_error"


def test_what_could_not_end_before_the_deadline_is_not_begun(made: Any) -> None:
    factory = made()
    env = factory()
    reset(env)
    solve(env)
    reward = episode_reward(deadline=1.0)
    assert rewards(reward, env) == [None]
    assert result_of(env).error_type == "deadline"
    assert not factory.dg.provider.started


def test_a_client_whose_loop_is_blocked_costs_verdicts_and_not_the_run(made: Any) -> None:
    release = threading.Event()

    def block(workspace: Any) -> str:
        release.wait(60.0)
        return "late"

    factory = made(scripted({"block": block}), env=SHORT, patience=0.2)
    env, late = factory(), factory()
    reset(env)
    try:
        assert env.bash(command="block") == UNAVAILABLE
        reset(late)
        assert rewards(factory.reward_fn(), env, late) == [None, None]
    finally:
        release.set()
    factory.patience = Patience(60.0)
    reset(env)
    solve(env)
    assert rewards(factory.reward_fn(), env) == [1.0]


@pytest.mark.local_sandbox
def test_after_a_hang_the_next_episodes_have_a_new_client(monkeypatch: Any) -> None:
    short = environment("short", setup=0.2)
    with make_environment_factory([short, ANSWER], max_sessions=4, patience=2.0) as factory:
        monkeypatch.setattr(factory.dg.provider, "host", forever)
        env, first = factory(), factory.dg
        env.reset(env_id="short")
        assert env.bash(command="ls") == UNAVAILABLE
        assert rewards(factory.reward_fn(), env) == [None]
        assert factory.dg is first
        env.reset(env_id="answer")
        assert factory.dg is not first
        assert factory.dg.provider.max_sessions == 4
        solve(env)
        assert rewards(factory.reward_fn(), env) == [1.0]


# Grading


def test_grading_runs_side_by_side_as_far_as_it_may(made: Any) -> None:
    for asked, most in ((None, 6), (3, 3)):
        provider = scripted(judged=Behaviour.reports(0.5, seconds=0.2))
        factory = made(provider)
        environments = [factory() for _ in range(6)]
        reset(*environments)
        assert rewards(factory.reward_fn(max_parallel=asked), *environments) == [0.5] * 6
        assert provider.busiest == most


def test_an_episode_is_graded_and_logged_once_for_a_gate_and_the_trainer(made: Any) -> None:
    fault = SessionFault("network", "act")
    factory, log = made(FaultyProvider(scripted(), fault, answers={"ls"})), Log()
    lost, solved = factory(), factory()
    reset(lost, solved)
    lost.bash(command="ls")
    solve(solved)
    reward = factory.reward_fn()
    fmt = gate(lambda completions, **_: [0.25] * len(completions), by=reward)
    assert unmasking([reward, fmt]) == []
    completions = ["", ""]
    call = {
        "prompts": [PROMPT] * 2,
        "completions": completions,
        "completion_ids": [[1], [2]],
        "environments": [lost, solved],
        "log_metric": log.metric,
    }
    assert fmt(**call) == [None, 0.25]
    assert reward(**call) == [None, 1.0]
    assert log.metrics["deepgym/samples"] == [2.0]
    assert sum(factory.dg.provider.inner.started.values()) == 1
    both = CompositeReward(reward, lambda completions, **_: [0.5] * len(completions))
    assert both(**{**call, "completions": ["", ""]}) == [None, 1.5]


def test_environments_of_others_are_left_to_others(made: Any) -> None:
    factory, log = made(), Log()
    env = factory()
    reset(env)
    solve(env)
    assert log(factory.reward_fn(), object(), env) == [None, 1.0]
    assert log.metrics["deepgym/samples"] == [1.0]
    assert log.columns["deepgym_verdict"] == ["none", "passed"]


def test_observers_are_told_of_each_result(made: Any) -> None:
    seen: list[tuple[int, float | None]] = []

    class Watcher:
        def on_phase(self, index: int, phase: Any) -> None: ...

        def on_result(self, index: int, result: RunResult) -> None:
            seen.append((index, result.reward))

    factory = made()
    solved, lazy = factory(), factory()
    reset(solved, lazy)
    solve(solved)
    assert rewards(factory.reward_fn(observers=[Watcher()]), solved, lazy) == [1.0, 0.0]
    assert seen == [(0, 1.0), (1, 0.0)]


@pytest.mark.parametrize("environments", [None, []])
def test_a_trainer_that_gives_no_environments_is_told_the_remedy(environments: Any) -> None:
    with pytest.raises(ValueError, match=r"environment_factory=|0 environments for 1"):
        episode_reward()([PROMPT], [""], environments=environments)


def test_a_trl_that_does_not_mask_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("deepgym_trl.versions.installed", lambda: "1.5.1")
    with pytest.raises(ImportError, match=r"trl>=1\.6"):
        episode_reward()
    assert episode_reward(masked=False, name="other").__name__ == "other"


# Room, and the end


def test_a_batch_beyond_the_clients_room_is_refused_with_the_remedy() -> None:
    factory = make_environment_factory(ANSWER, max_sessions=2)
    held = [factory(), factory()]
    with pytest.raises(ValueError, match=r"max_sessions=2 .* max_sessions= the batch's size"):
        factory()
    held.pop()
    assert factory() is not None


@pytest.mark.local_sandbox
def test_a_client_that_is_full_gives_no_verdict_instead_of_waiting_for_ever() -> None:
    with DeepGym(max_sessions=1) as client, client.session(ANSWER) as other:
        other.reset()
        factory = make_environment_factory(SHORT, dg=client, patience=0.1)
        env = factory()
        reset(env)
        assert env.bash(command="ls") == UNAVAILABLE
        assert rewards(factory.reward_fn(), env) == [None]
        assert "max_sessions=1" in (result_of(env).error or "")


def eventually(check: Callable[[], bool]) -> bool:
    waiting = threading.Event()
    return any(check() or waiting.wait(0.02) for _ in range(1500))


def test_an_environment_that_is_forgotten_ends_its_sandbox(made: Any) -> None:
    provider = scripted()
    factory = made(provider)
    env = factory()
    reset(env)
    solve(env)
    gone = weakref.ref(env)
    del env
    gc.collect()
    assert gone() is None
    assert eventually(lambda: provider.workspaces[0].closed)


def test_closing_the_factory_ends_what_is_open_and_it_can_be_used_again() -> None:
    provider = scripted()
    with make_environment_factory(ANSWER, dg=DeepGym(provider=provider)) as factory:
        env = factory()
        reset(env)
        solve(env)
    assert provider.workspaces[0].closed
    assert rewards(factory.reward_fn(), env) == [None]
    reset(env)
    solve(env)
    assert rewards(factory.reward_fn(), env) == [1.0]
    factory.close()
    factory.dg.close()


LEAVES = """
from deepgym import DeepGym
from deepgym.testing import FakeProvider, FakeSessions
from deepgym_trl.episodes import make_environment_factory

class Told(FakeProvider):
    async def host(self, place):
        workspace = await super().host(place)
        close = workspace.close
        async def closing():
            await close()
            print("closed", flush=True)
        workspace.close = closing
        return workspace

provider = Told(sessions=FakeSessions({"ls": "seen"}))
env = make_environment_factory("refactor", dg=DeepGym(provider=provider))()
env.reset()
print(env.bash(command="ls"), flush=True)
"""

LEAVES_A_JOB = """
from deepgym_trl.episodes import make_environment_factory

env = make_environment_factory("refactor")()
env.reset()
print(env.bash(command="sleep 48151.623 & disown; echo started"), flush=True)
"""


def script(text: str) -> list[str]:
    made = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.split()


def test_the_end_of_the_process_closes_sandboxes() -> None:
    assert script(LEAVES) == ["seen", "closed"]


@pytest.mark.local_sandbox
def test_nothing_runs_on_after_the_end_of_the_process() -> None:
    assert script(LEAVES_A_JOB)[-1] == "started"

    def gone() -> bool:
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes())
            except OSError:
                continue
        return not any(b"48151.623" in line for line in lines)

    assert eventually(gone)


FORKS = """
import os
from deepgym_trl.episodes import episode_reward, make_environment_factory

factory = make_environment_factory("fix_the_program")
reward = episode_reward()

def graded(env):
    return reward([[]], [""], environments=[env])

ours = factory()
ours.reset()
ours.bash(command="touch here")
if child := os.fork():
    os.waitpid(child, 0)
    print(ours.bash(command="ls here; ls there"), graded(ours), flush=True)
else:
    env = factory()
    env.reset()
    env.bash(command="touch there")
    print(env.bash(command="ls there"), graded(env), flush=True)
    del ours, env
"""


@pytest.mark.local_sandbox
def test_a_forked_child_plays_episodes_of_its_own() -> None:
    words = script(FORKS)
    assert words[:2] == ["there", "[0.0]"]
    assert words[2] == "here"
    assert "No such file" in " ".join(words)
    assert words[-1] == "[0.0]"


def test_importing_it_loads_no_trainer() -> None:
    text = (
        "import deepgym_trl.episodes, sys; print(*sorted({'trl', 'torch', 'transformers'} & {*sys.modules}))"
    )
    assert script(text) == []
    assert importlib.import_module("deepgym_trl").make_environment_factory is make_environment_factory


# The local sandbox


@pytest.fixture(scope="module")
def local(local_sandbox: None) -> Iterator[DeepGym]:
    with DeepGym(provider=LocalProvider()) as client:
        yield client


def play_reference(env: Any, name: str) -> None:
    reference = load_multi_turn_environment(name).reference
    assert reference is not None
    for call in reference:
        getattr(env, call.name)(**call.arguments)


def test_a_batch_of_references_and_of_idlers_in_real_sandboxes(local: DeepGym) -> None:
    names = ["log_analysis", "fix_the_program", "git_repository"]
    factory = make_environment_factory(dg=local)
    solving, idling = [factory() for _ in names], [factory() for _ in names]
    for env, name in zip([*solving, *idling], names * 2, strict=True):
        task = load_multi_turn_environment(name).task
        assert env.reset(prompt=PROMPT, env_id=name) == task
    for env, name in zip(solving, names, strict=True):
        play_reference(env, name)
    for env in idling:
        assert env.bash(command="ls").strip()
    reward, log = factory.reward_fn(), Log()
    found = log(reward, *solving, *idling)
    assert found[:3] == [1.0, 1.0, 1.0]
    assert all(value is not None and value <= 0.1 for value in found[3:])
    assert log.metrics["deepgym/verdict_rate"] == [1.0]
    assert log.columns["deepgym_env"] == names * 2
    assert log.columns["deepgym_verdict"] == ["passed"] * 3 + ["failed"] * 3
    assert len({*log.columns["deepgym_run_id"]} - {""}) == 6


def test_a_pickled_factory_plays_as_the_first_one(local: DeepGym) -> None:
    factory = make_environment_factory(environment(), dg=local)
    used = factory()
    reset(used)
    again, reward = pickle.loads(pickle.dumps((factory, factory.reward_fn(name="r"))))
    assert isinstance(again, EpisodeFactory)
    assert isinstance(reward, EpisodeReward)
    env = again()
    reset(env)
    assert env.bash(command="echo -n 42 > answer.txt; cat answer.txt") == "42"
    assert rewards(reward, env) == [1.0]
    assert (reward.__name__, again.env_column) == ("r", "env_id")
    again.close()
    again.dg.close()
    used._leave()
