from __future__ import annotations

import asyncio
import os
import pickle

import pytest

from deepgym import AsyncDeepGym, AsyncRewardFunction, Case, Cases, DeepGym, Environment, RewardFunction
from deepgym.contract.evidence import Phase
from deepgym.exceptions import UnknownNameError
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider

ADD = Environment(
    name="add",
    task="Add.",
    verify=Cases(function="add", cases=(Case(args=(1, 2), expected=3), Case(args=(0, 0), expected=0))),
)
SCRIPT = {
    "right": Behaviour.calls(lambda a, b: a + b),
    "lost": Behaviour.calls(lambda a, b: a + b),
    "half": Behaviour.calls(lambda a, b: 0),
    "loop": Behaviour.loops(),
}
COMPLETIONS = ["```python\nright\n```", "half", "lost", "loop", None]
REWARDS = [1.0, 0.5, None, 0.0, 0.0]


def provider() -> FaultyProvider:
    return FaultyProvider(FakeProvider(SCRIPT), Fault("network", Phase.OPENED), answers={"lost"})


def test_an_outage_is_none_and_its_siblings_keep_their_rewards() -> None:
    with DeepGym(provider=provider()) as dg:
        reward_fn = RewardFunction(ADD, dg=dg)
        assert reward_fn(COMPLETIONS) == REWARDS
        per_test = reward_fn.per_test_rewards(COMPLETIONS)
    assert per_test[1] == {"test_0": 0.0, "test_1": 1.0, "overall": 0.5}
    assert per_test[2] is None
    assert per_test[3] == {"test_0": 0.0, "test_1": 0.0, "overall": 0.0}


def test_the_async_form_gives_the_same() -> None:
    async def main() -> list[float | None]:
        async with AsyncDeepGym(provider=provider()) as dg:
            return await AsyncRewardFunction(ADD, dg=dg)(COMPLETIONS)

    assert asyncio.run(main()) == REWARDS


def test_an_unknown_environment_is_an_error_and_no_reward() -> None:
    with (
        DeepGym(provider=provider()) as dg,
        pytest.raises(UnknownNameError, match="two_sum"),
    ):
        RewardFunction("two_sums", dg=dg)(["x"])


TWO_SUM = """
def two_sum(nums, target):
    pairs = [[j, i] for i in range(len(nums)) for j in range(i) if nums[i] + nums[j] == target]
    return pairs[0]
"""
SAMPLES = [f"```python\n{TWO_SUM}```", "I don't know.", "```python\nimport os; os._exit(0)\n```"]


@pytest.mark.local_sandbox
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_it_works_in_the_local_sandbox_pickled_and_after_a_fork() -> None:
    with RewardFunction("two_sum", max_parallel=2) as reward_fn:
        rewards = reward_fn(SAMPLES)
        assert rewards[1:] == [0.0, 0.0]
        copy = pickle.loads(pickle.dumps(reward_fn))
        with copy:
            assert copy(SAMPLES) == rewards
        child = os.fork()
        if child == 0:
            same = False
            try:
                same = reward_fn(SAMPLES) == rewards
                reward_fn.close()
            finally:
                os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert reward_fn(SAMPLES) == rewards
