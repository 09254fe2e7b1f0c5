"""The core keeps its own laws: the client, and the reward function on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepgym.client import DeepGym
from deepgym.environments import Environment
from deepgym.providers.base import Provider
from deepgym.rewards import RewardFunction
from deepgym.testing.laws import ContractLaws


class TestTheClient(ContractLaws):
    """``run_batch`` on a fake provider."""


class TestTheRewardFunction(ContractLaws):
    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> Sequence[Any]:
        with DeepGym(provider=provider) as dg:
            return RewardFunction(env, dg=dg)(list(answers))


class TestTheStream(ContractLaws):
    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> Sequence[Any]:
        with DeepGym(provider=provider) as dg:
            found = dict(dg.stream(env, list(answers)))
        return [found[index].reward for index in range(len(answers))]
