"""The contract's laws, as verl's trainer and a custom loop see them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from deepgym.client import DeepGym
from deepgym.environments import Environment
from deepgym.exceptions import NoVerdictError
from deepgym.providers.base import Provider
from deepgym.testing.laws import ContractLaws
from deepgym_verl import surroundings
from deepgym_verl.info import KEYS
from deepgym_verl.judge import Judge
from deepgym_verl.options import Options
from deepgym_verl.reward import scored
from deepgym_verl.reward_fn import make_verl_reward_fn


def fenced(answer: str) -> str:
    return f"```python\n{answer}\n```" if answer else ""


def judged(error: NoVerdictError) -> None:
    """What is left out carries what is known of it."""
    assert error.result is not None
    assert not error.result.has_verdict


class TestComputeScore(ContractLaws):
    """A run without a verdict raises; every other returns all keys, in order."""

    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> Sequence[Any]:
        with DeepGym(provider=provider) as dg:
            grader = Judge(Options.read({"env": env}), dg)

            async def one(answer: str) -> float | None:
                try:
                    found = await scored(grader, None, fenced(answer))
                except NoVerdictError as error:
                    return judged(error)
                assert tuple(found) == KEYS
                assert found["error"] == 0.0
                score: float = found["score"]
                return score

            async def all_of_them() -> list[float | None]:
                return list(await asyncio.gather(*map(one, answers)))

            return asyncio.run(all_of_them())


class TestRewardsForACustomLoop(ContractLaws):
    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> Sequence[Any]:
        with DeepGym(provider=provider) as dg:
            rewards: Sequence[Any] = make_verl_reward_fn(env, dg=dg)([fenced(answer) for answer in answers])
            return rewards


def test_a_row_of_another_environment_than_the_only_one_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "_said", set[str]())
    grader = Judge(Options.read({"env": "two_sum"}))
    for label in (None, "two_sum", "coin_change", "coin_change"):
        assert grader.item(label, "x").env.name == "two_sum"
    (record,) = caplog.records
    assert "'coin_change', but reward_kwargs.env is 'two_sum' alone" in record.getMessage()
