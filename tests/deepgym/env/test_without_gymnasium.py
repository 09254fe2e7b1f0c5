"""Gymnasium is never required: the same environments in a process that can't import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKER = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("gymnasium", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""

WORKS = """
import asyncio, copy, json, pickle
from deepgym import AsyncDeepGym, AsyncDeepGymEnv, Case, Cases, DeepGym, DeepGymEnv, Environment
from deepgym.testing import Behaviour, FakeProvider

cases = Cases(function="add", cases=(Case(args=(1, 2), expected=3),))
add = Environment(name="add", task="Add.", verify=cases)
script = {"right": Behaviour.calls(lambda a, b: a + b)}
with DeepGymEnv(add, DeepGym(provider=FakeProvider(script)), max_turns=2, render_mode="ansi") as env:
    assert env.unwrapped is env and env.spec is None
    assert env.reset(seed=3)[0] == "Add."
    assert env.step("wrong")[1:4] == (0.0, False, False)
    assert env.step("right")[1:4] == (1.0, True, False)
    assert env.render().startswith("add, turn 2")
    assert [step[1] for step in env.step_batch(["right", "wrong"])] == [1.0, 0.0]
plain = pickle.loads(pickle.dumps(DeepGymEnv(add)))
assert plain.environment == add
for name in ("action_space", "observation_space", "np_random"):
    assert not hasattr(env, name)
    try:
        getattr(env, name)
    except AttributeError as error:
        assert "deepgym[gymnasium]==" in str(error), error
try:
    env.nothing
except AttributeError as error:
    assert "no attribute 'nothing'" in str(error), error

async def main():
    async with AsyncDeepGymEnv(add, AsyncDeepGym(provider=FakeProvider(script))) as env:
        await env.reset()
        assert (await env.step("right"))[1] == 1.0

asyncio.run(main())
"""

BROKEN = """
import importlib.abc, sys
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
sys.meta_path.insert(0, Broken())
import deepgym.env
"""

LOADS = """
import sys
import deepgym
assert not {"gymnasium", "numpy", "deepgym.env"} & set(sys.modules)
from deepgym import DeepGym, RewardFunction, load_environment
assert not {"gymnasium", "numpy", "deepgym.env"} & set(sys.modules)
"""


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_everything_but_the_spaces_works_without_gymnasium() -> None:
    process = ran(BLOCKER + WORKS)
    assert process.returncode == 0, process.stderr


def test_the_blocker_blocks() -> None:
    assert "No module named 'gymnasium'" in ran(BLOCKER + "import gymnasium").stderr


def test_a_gymnasium_that_is_broken_is_an_error_and_not_a_missing_one() -> None:
    pytest.importorskip("gymnasium")
    assert "No module named 'numpy'" in ran(BROKEN).stderr


def test_nobody_loads_gymnasium_who_does_not_ask_for_an_environment_of_its_kind() -> None:
    process = ran(LOADS)
    assert process.returncode == 0, process.stderr
