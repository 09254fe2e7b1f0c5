"""``DeepGymEnv`` as what Gymnasium takes it for."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import wrappers  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv  # noqa: E402

from deepgym import Case, Cases, DeepGym, DeepGymEnv, Environment, load_environment  # noqa: E402
from deepgym.env.ids import register  # noqa: E402
from deepgym.env.spaces import AnyText  # noqa: E402
from deepgym.environments import list_environments, list_multi_turn_environments  # noqa: E402
from deepgym.testing import Behaviour, FakeProvider  # noqa: E402

ADD = Environment(
    name="add",
    task="Write add(a, b).",
    verify=Cases(function="add", cases=(Case(args=(1, 2), expected=3), Case(args=(0, 0), expected=0))),
)
SCRIPT = {
    "right": Behaviour.calls(lambda a, b: a + b),
    "half": Behaviour.calls(lambda a, b: 0),
    "loops": Behaviour.loops(),
}


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    with DeepGym(provider=FakeProvider(SCRIPT)) as client:
        yield client


def test_it_is_a_gymnasium_environment_with_spaces_of_text(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg)
    assert isinstance(env, gymnasium.Env)
    assert env.unwrapped is env
    task, _ = env.reset()
    assert task in env.observation_space
    for action in ("", "def f():\n\treturn 'é漢🐍\x00'", "a" * 1_000_000):
        assert action in env.action_space
    assert 3 not in env.action_space
    assert "a" * ((1 << 24) + 1) not in env.action_space


def test_a_space_of_text_samples_what_it_contains_by_its_seed() -> None:
    space, same, short = AnyText(1000, seed=3), AnyText(1000, seed=3), AnyText(2, seed=3)
    samples = [space.sample() for _ in range(50)]
    assert samples == [same.sample() for _ in range(50)]
    assert len(set(samples)) > 40
    assert all(sample in space for sample in samples)
    assert all(short.sample() in short for _ in range(50))
    assert (space == same, space == short, space == "text") == (True, False, False)
    copy = pickle.loads(pickle.dumps(space))
    assert copy == space
    assert copy.sample() == space.sample()
    assert space.from_jsonable(space.to_jsonable(samples)) == samples
    assert repr(short) == "AnyText(2)"
    with pytest.raises(ValueError, match="mask"):
        space.sample(mask=(None, None))
    with pytest.raises(ValueError, match="max_length=0"):
        AnyText(0)


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes")
def test_gymnasiums_checker_finds_nothing() -> None:
    with DeepGym() as dg:
        check_env(DeepGymEnv("two_sum", dg, render_mode="ansi"))
        check_env(DeepGymEnv("currency_report", dg, max_turns=3))


@pytest.mark.local_sandbox
def test_gymnasiums_checker_finds_nothing_in_a_registered_environment() -> None:
    env = gymnasium.make("deepgym/two_sum-v0")
    check_env(env.unwrapped)
    env.close()
    env.unwrapped.close()


def test_the_wrappers_that_people_use_work_and_keep_info(dg: DeepGym) -> None:
    env: Any = wrappers.TimeLimit(DeepGymEnv(ADD, dg, max_turns=9), max_episode_steps=2)
    env = wrappers.RecordEpisodeStatistics(wrappers.OrderEnforcing(wrappers.PassiveEnvChecker(env)))
    env = wrappers.TransformReward(env, lambda reward: 2 * reward - 1)
    env.reset(seed=1)
    assert env.step("half")[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step("loops")
    assert (reward, terminated, truncated) == (-1.0, False, True)
    assert info["episode"]["r"] == 0.5
    assert info.has_verdict
    assert info.result.error_type == "solution_timeout"
    env.reset()
    assert env.step("right")[1:4] == (1.0, True, False)


def test_rendered_turns_are_collected(dg: DeepGym) -> None:
    env: Any = wrappers.RenderCollection(DeepGymEnv(ADD, dg, render_mode="ansi"))
    env.reset()
    env.step("half")
    frames = env.render()
    assert [frame.splitlines()[0] for frame in frames] == ["add", "add, turn 1"]


def test_every_built_in_environment_has_an_id() -> None:
    registry = gymnasium.envs.registration.registry
    names = [*list_environments(), *list_multi_turn_environments()]
    assert names
    for name in names:
        assert registry[f"deepgym/{name}-v0"].kwargs == {"env": name}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()


def test_an_id_makes_the_environment_with_the_arguments_given(dg: DeepGym) -> None:
    env = gymnasium.make("deepgym/coin_change-v0", dg=dg, max_turns=2, render_mode="ansi")
    assert env.unwrapped.environment == load_environment("coin_change")
    assert env.spec.id == "deepgym/coin_change-v0"
    env.reset()
    assert env.step("anything")[1:4] == (0.0, False, False)
    assert "coin_change, turn 1" in env.render()


IDS = """
import sys
import gymnasium
assert not any(id.startswith("deepgym/") for id in gymnasium.envs.registration.registry)
{}
env = gymnasium.make("{}deepgym/coin_change-v0")
assert "coin_change" in env.reset()[0]
assert not any(name.startswith("deepgym.providers.local") for name in sys.modules)
"""


@pytest.mark.parametrize(
    ("statement", "prefix"),
    [("import deepgym.env", ""), ("from deepgym import DeepGymEnv", ""), ("", "deepgym.env:")],
)
def test_ids_are_there_once_the_module_is_imported_or_named(statement: str, prefix: str) -> None:
    code = IDS.format(statement, prefix)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


#: Pickles by its class alone, so that a spawned process needs nothing of this module.
made = functools.partial(DeepGymEnv, "two_sum")
REFERENCE = load_environment("two_sum").reference
LAZY = "def two_sum(nums, target):\n    return [0, 1]"
DIES = "import os\ndef two_sum(nums, target):\n    os._exit(0)"


def check_steps(envs: Any) -> None:
    tasks, infos = envs.reset(seed=7)
    assert tasks == (load_environment("two_sum").task,) * 3
    assert infos["seed"].tolist() == [7, 8, 9]
    assert infos["has_verdict"].tolist() == [False] * 3
    texts, rewards, terminated, truncated, infos = envs.step([REFERENCE, LAZY, DIES])
    assert texts[0].startswith("Passed")
    assert rewards[0] == 1.0
    assert 0.0 < rewards[1] < 1.0
    assert rewards[2] == 0.0
    assert terminated.all()
    assert not truncated.any()
    assert infos["has_verdict"].tolist() == [True] * 3
    assert infos["passed"].tolist() == [True, False, False]
    assert infos["score"].tolist() == rewards.tolist()
    assert infos["error_type"].tolist() == [None, None, "solution_error"]
    assert infos["outcomes"][0] == ["passed"] * infos["cases_total"][0]
    results = envs.get_attr("last_result")
    assert [result.score for result in results] == rewards.tolist()


@pytest.mark.local_sandbox
def test_a_vector_environment_stacks_what_its_environments_say() -> None:
    envs = SyncVectorEnv([made] * 3)
    check_steps(envs)
    _, rewards, terminated, _, infos = envs.step([LAZY] * 3)  # which resets
    assert rewards.tolist() == [0.0] * 3
    assert not terminated.any()
    assert infos["has_verdict"].tolist() == [False] * 3
    assert envs.step([REFERENCE] * 3)[1].tolist() == [1.0] * 3
    envs.close()


@pytest.mark.skipif(not hasattr(gymnasium.vector, "AutoresetMode"), reason="Gymnasium 1.0 has one mode alone")
def test_a_reset_in_the_same_step_keeps_the_last_info(dg: DeepGym) -> None:
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = SyncVectorEnv([lambda: DeepGymEnv(ADD, dg)] * 2, autoreset_mode=mode)
    envs.reset()
    tasks, rewards, terminated, _, infos = envs.step(["right", "half"])
    assert tasks == (ADD.task, ADD.task)
    assert rewards.tolist() == [1.0, 0.5]
    assert terminated.all()
    assert infos["final_info"]["has_verdict"].tolist() == [True, True]
    assert infos["final_info"]["passed"].tolist() == [True, False]
    assert infos["final_obs"][0] == "Passed: all 2 cases."


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_environments_work_in_processes_of_their_own(context: str) -> None:
    envs = AsyncVectorEnv([made] * 3, shared_memory=False, context=context)
    try:
        check_steps(envs)
    finally:
        envs.close()


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_an_environment_made_before_a_fork_works_on_both_sides_of_it() -> None:
    with DeepGymEnv("two_sum", max_turns=3) as env:
        env.reset()
        reward = env.step(LAZY)[1]
        child = os.fork()
        if child == 0:
            same = False
            try:
                step = env.step(REFERENCE)
                same = step[1] == 1.0 - reward
                env.close()
            finally:
                os._exit(0 if same and step[2] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert env.step(REFERENCE)[1:3] == (1.0 - reward, True)
