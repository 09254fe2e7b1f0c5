"""The contract's laws, through the reward function that TRL calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from deepgym import DeepGym
from deepgym.environments import Environment
from deepgym.providers.base import Provider
from deepgym.testing.laws import ContractLaws
from deepgym_trl import make_async_trl_reward_fn, make_trl_reward_fn


class TestSyncReward(ContractLaws):
    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> list[float | None]:
        with DeepGym(provider=provider) as dg:
            reward = make_trl_reward_fn(env, dg=dg, extract=False)
            return reward(prompts=["p"] * len(answers), completions=list(answers), completion_ids=[])


class TestAsyncReward(ContractLaws):
    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> list[float | None]:
        with DeepGym(provider=provider) as dg:
            reward = make_async_trl_reward_fn([env], dg=dg, extract=False)
            columns = {"env_id": [env.name] * len(answers)}
            call = reward(
                prompts=["p"] * len(answers), completions=list(answers), completion_ids=[], **columns
            )
            return asyncio.run(call)
