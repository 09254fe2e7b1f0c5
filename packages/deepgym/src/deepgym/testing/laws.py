"""The contract's laws, as one suite that every adapter and every provider passes.

    class TestMyAdapter(ContractLaws):
        def grade(self, env, provider, answers):
            return my_reward_function(env, DeepGym(provider=provider))(answers)

    class TestMyProvider(ContractLaws):
        def provider(self):
            return MyProvider()

An adapter says what its trainer receives for a run without a verdict (``is_unjudged``); a provider runs the
answers below for real. Faults are put in around the provider, so no outage is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from deepgym.client import DeepGym
from deepgym.contract.evidence import Fate, Phase
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits, Program
from deepgym.models import BatchResult
from deepgym.providers.base import Exit, Provider
from deepgym.testing.fakes import Behaviour, FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider

__all__ = ["ADD", "ANSWERS", "PROGRAM", "SCRIPT", "ContractLaws"]

GOOD = "def add(a, b):\n    return a + b"
HALF = "def add(a, b):\n    return a"
WRONG = "def add(a, b):\n    return None"
RAISES = "def add(a, b):\n    raise ValueError('no')"
BROKEN = "def add(a, b:\n"
EMPTY = ""
DIES = "import os\ndef add(a, b):\n    os._exit(0)"
LOOPS = "def add(a, b):\n    while True: pass"

#: Answers to ``ADD`` and the reward of each.
ANSWERS: dict[str, float] = {
    GOOD: 1.0,
    HALF: 0.5,
    WRONG: 0.0,
    RAISES: 0.0,
    BROKEN: 0.0,
    EMPTY: 0.0,
    DIES: 0.0,
    LOOPS: 0.0,
}

#: Two declared cases.
ADD = Environment(
    name="laws/add",
    task="Write add(a, b), which returns the sum of two numbers.",
    verify=Cases(function="add", cases=(Case(args=(1, 2), expected=3), Case(args=(4, 0), expected=4))),
    limits=EnvironmentLimits(wall=1.0),
    reference=GOOD,
)
#: The same with a verifier program.
PROGRAM = Environment(
    name="laws/add-program",
    task=ADD.task,
    verify=Program(
        source=(
            "def verify(solution):\n"
            "    add = solution.function('add')\n"
            "    return (0.5 if add(1, 2) == 3 else 0) + (0.5 if add(4, 0) == 4 else 0)\n"
        )
    ),
    limits=EnvironmentLimits(wall=1.0),
    reference=GOOD,
)


def _add(a: int, b: int) -> int:
    return a + b


def _first(a: int, b: int) -> int:
    return a


def _nothing(a: int, b: int) -> None:
    return None


def _raise(a: int, b: int) -> None:
    raise ValueError("no")


def _fails(replies: int | None = None, **others: Any) -> Behaviour:
    return Behaviour.reports(0.0, replies=replies, **others)


_GONE = "the solution's process ended"
#: What a ``FakeProvider`` does with the answers above.
SCRIPT: dict[str, Behaviour] = {
    GOOD: Behaviour.calls(_add),
    HALF: Behaviour.reports(0.5, call=_first),
    WRONG: _fails(call=_nothing),
    RAISES: _fails(call=_raise),
    BROKEN: _fails(0, exit=Exit(code=1), fault=_GONE),
    EMPTY: _fails(0, exit=Exit(code=1), fault=_GONE),
    DIES: _fails(0, exit=Exit(code=0), fault=_GONE),
    LOOPS: Behaviour.loops(),
}

#: Reports that mustn't become a reward; each is given by a verifier that has the answer in play.
BAD_SCORES: dict[str, object] = {
    "nan": float("nan"),
    "infinite": float("inf"),
    "above one": 1.5,
    "negative": -0.5,
    "bool": True,
    "text": "1.0",
    "null": None,
}

_OWN_ZERO = ("policy_sandbox_failure", "solution_timeout")
_OUTAGES = [fault for fault in FAULTS if fault.error_type not in _OWN_ZERO]
_OWN_FAULTS = [fault for fault in FAULTS if fault.error_type in _OWN_ZERO]
#: At ``QUEUED`` no answer is known, so such a fault can't be aimed at one of several.
_AIMED_OUTAGES = [fault for fault in _OUTAGES if fault.phase is not Phase.QUEUED]


class ContractLaws:
    """Subclass it in a test module, with a name that pytest collects."""

    def provider(self) -> Provider:
        """A provider that knows the answers of this module; a fake by default."""
        return FakeProvider(SCRIPT)

    def grade(self, env: Environment, provider: Provider, answers: Sequence[str]) -> Sequence[Any]:
        """What the trainer receives for ``answers``, one item for each."""
        return self.batch(env, provider, answers).rewards

    def is_unjudged(self, received: Any) -> bool:
        """Whether ``received`` is what the contract says for a run without a verdict."""
        return received is None

    def reward_of(self, received: Any) -> float:
        """The number in what a trainer receives for a judged run."""
        assert type(received) is float, f"a reward is a float, not {received!r}"
        return received

    def batch(self, env: Environment, provider: Provider, answers: Sequence[str]) -> BatchResult:
        """The full results, for the laws about totals."""
        with DeepGym(provider=provider) as dg:
            return dg.run_batch(env, answers)

    # The laws.

    @pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
    def test_each_answer_gets_its_own_reward_in_order(self, env: Environment) -> None:
        answers = [*ANSWERS, *reversed(ANSWERS), GOOD, GOOD]
        received = self.grade(env, self.provider(), answers)
        assert [self.reward_of(item) for item in received] == [ANSWERS[answer] for answer in answers]

    def test_no_answers_give_no_rewards(self) -> None:
        assert len(self.grade(ADD, self.provider(), [])) == 0

    @pytest.mark.parametrize("fault", _AIMED_OUTAGES, ids=str)
    @pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
    def test_an_outage_is_no_verdict_and_moves_no_sibling(self, env: Environment, fault: Fault) -> None:
        provider = FaultyProvider(self.provider(), fault, answers={HALF})
        first, second, third, fourth = self.grade(env, provider, [GOOD, HALF, WRONG, HALF])
        assert provider.struck[HALF] >= 2
        assert self.is_unjudged(second)
        assert self.is_unjudged(fourth)
        assert (self.reward_of(first), self.reward_of(third)) == (1.0, 0.0)

    @pytest.mark.parametrize("fault", [fault for fault in _OUTAGES if fault.phase is Phase.QUEUED], ids=str)
    def test_an_outage_of_everything_is_no_verdict_for_anyone(self, fault: Fault) -> None:
        received = self.grade(ADD, FaultyProvider(self.provider(), fault), [GOOD, WRONG])
        assert [self.is_unjudged(item) for item in received] == [True, True]

    @pytest.mark.parametrize("fault", _OWN_FAULTS, ids=str)
    @pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
    def test_the_same_failure_after_the_answer_is_in_play_is_its_own_zero(
        self, env: Environment, fault: Fault
    ) -> None:
        provider = FaultyProvider(self.provider(), fault, answers={GOOD})
        first, second = self.grade(env, provider, [GOOD, HALF])
        assert provider.struck[GOOD] >= 1
        assert (self.reward_of(first), self.reward_of(second)) == (0.0, 0.5)

    @pytest.mark.parametrize(
        "fault", [fault for fault in FAULTS if fault.phase.rank < Phase.IN_PLAY.rank], ids=str
    )
    def test_what_passes_before_play_is_tried_again(self, fault: Fault) -> None:
        provider = FaultyProvider(self.provider(), fault, times=1)
        (received,) = self.grade(ADD, provider, [GOOD])
        assert sum(provider.struck.values()) == 1
        assert self.reward_of(received) == 1.0

    @pytest.mark.parametrize("kind", ["provider", "supervisor", "died"])
    def test_a_broken_clean_up_changes_no_reward(self, kind: Any) -> None:
        provider = FaultyProvider(self.provider(), Fault(kind, Phase.CLOSED))
        received = self.grade(ADD, provider, [GOOD, WRONG])
        assert [self.reward_of(item) for item in received] == [1.0, 0.0]

    @pytest.mark.parametrize("score", BAD_SCORES.values(), ids=BAD_SCORES)
    def test_what_is_no_score_is_never_reward(self, score: object) -> None:
        script = {**SCRIPT, "bad": Behaviour.reports(score, passed=True)}
        first, second = self.grade(PROGRAM, FakeProvider(script), ["bad", GOOD])
        assert (self.reward_of(first), self.reward_of(second)) == (0.0, 1.0)

    def test_a_verifier_that_gives_up_is_no_verdict(self) -> None:
        script = {**SCRIPT, "bad": Behaviour.crashes_verifier(2, report={"score": 1.0, "passed": True})}
        first, second = self.grade(PROGRAM, FakeProvider(script), ["bad", GOOD])
        assert self.is_unjudged(first)
        assert self.reward_of(second) == 1.0

    def test_a_verifier_that_crashes_on_an_answer_is_that_answers_zero(self) -> None:
        script = {**SCRIPT, "bad": Behaviour.crashes_verifier(70, report={"score": 1.0, "passed": True})}
        first, second = self.grade(PROGRAM, FakeProvider(script), ["bad", GOOD])
        assert (self.reward_of(first), self.reward_of(second)) == (0.0, 1.0)

    def test_an_eviction_counts_by_the_control_planes_word_alone(self) -> None:
        claimed = Exit(killed=True, fate=Fate(kind="evicted", source="channel"))
        script = {**SCRIPT, "bad": Behaviour(replies=0, exit=claimed)}
        (received,) = self.grade(ADD, FakeProvider(script), ["bad"])
        assert self.reward_of(received) == 0.0

    @pytest.mark.parametrize("share", [0.3, 1.0])
    def test_whatever_fails_only_finite_rewards_come_out(self, share: float) -> None:
        answers = [GOOD, HALF, WRONG, RAISES] * 5
        provider = FaultyProvider(self.provider(), Fault("network", Phase.REPORTED), rate=share, seed=3)
        received = self.grade(ADD, provider, answers)
        assert len(received) == len(answers)
        assert any(self.is_unjudged(item) for item in received)
        for answer, item in zip(answers, received, strict=True):
            if not self.is_unjudged(item):
                assert math.isfinite(self.reward_of(item))
                assert self.reward_of(item) == ANSWERS[answer]

    @pytest.mark.parametrize("kind", ["provider", "network", "evicted", "supervisor"])
    def test_totals_never_rise_by_losing_a_verdict(self, kind: Any) -> None:
        answers = [GOOD, GOOD, HALF, WRONG]
        full = self.batch(ADD, self.provider(), answers)
        for lost in (GOOD, HALF, WRONG):
            provider = FaultyProvider(self.provider(), Fault(kind, Phase.REPORTED), answers={lost})
            less = self.batch(ADD, provider, answers)
            assert less.no_verdict_count == answers.count(lost)
            assert less.passed <= full.passed
            assert less.pass_rate <= full.pass_rate
            assert less.avg_score <= full.avg_score
            assert less.total == full.total == less.judged_count + less.no_verdict_count
