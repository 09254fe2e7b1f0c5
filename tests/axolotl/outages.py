"""Providers that fail on our side, for training runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.providers.base import Job, Provider
from deepgym.testing import Behaviour, FakeProvider, Fault, FaultyProvider
from deepgym.testing.fakes import job_text

#: Struck in play: such a run isn't repeated, and has no verdict.
FAULT = Fault("provider", Phase.IN_PLAY)


class Scored(FakeProvider):
    """Each answer's verifier reports ``score(answer)``."""

    def __init__(self, score: Callable[[str], float]) -> None:
        super().__init__()
        self.score = score

    def behaviour(self, job: Job) -> Behaviour:
        return Behaviour.reports(self.score(job_text(job)))


class Struck(FaultyProvider):
    """Strikes a run of an answer with the probability ``chance(answer)``, whatever the order of runs."""

    def __init__(self, inner: Provider, chance: Callable[[str], float]) -> None:
        super().__init__(inner, FAULT)
        self.chance = chance
        self.turns: Counter[str] = Counter()

    def strikes(self, answer: str) -> bool:
        self.turns[answer] += 1
        return random.Random(f"{self.turns[answer]}:{answer}").random() < self.chance(answer)


def client(provider: Callable[[], Provider]) -> Callable[[], DeepGym]:
    """What stands in for ``DeepGym`` where a reward function opens its own client."""
    return lambda: DeepGym(provider=provider())
