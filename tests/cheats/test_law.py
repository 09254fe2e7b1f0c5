"""No cheat earns more than an empty answer, or hides its 0, in the real sandbox."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from deepgym import DeepGym, RunResult

from .catalogue import Cheat, cheats
from .environments import Target, targets

pytestmark = pytest.mark.local_sandbox

#: Characters of a result's JSON: two streams of 64 KiB, escaped, and what else there is.
MOST = 1 << 20


def _name(result: RunResult) -> str:
    return (
        f"{result.env_name}: {result.error_type} {result.error} score {result.score} {result.stderr[-400:]}"
    )


def _obeys(result: RunResult) -> bool:
    text = result.model_dump_json()
    assert len(text) <= MOST, f"{result.env_name}: {len(text)} characters"
    text.encode("utf-8")
    assert RunResult.model_validate_json(text) == result
    assert result.has_verdict, _name(result)
    assert result.reward == result.score
    return result.score <= 0.0 and not result.passed and not any(case.score for case in result.cases)


@cache
def _empty(client: DeepGym, target: Target) -> float:
    (result,) = client.run_batch(target.honest, [""]).results
    assert result.has_verdict, _name(result)
    return result.score


def test_a_cheat_earns_nothing_and_has_a_verdict(client: DeepGym, cheat: Cheat) -> None:
    places, answers = [], []
    against = targets(cheat.shape, cheat.slow)
    for target in against:
        for answer in cheat.answers(target.entry):
            places.append(target.short if cheat.slow else target.brisk)
            answers.append(answer)
        places.append(target.honest)
        answers.append(target.honest.reference or "")
    results = client.run_batch(places, answers).results
    assert len(results) == len(answers)
    step = len(cheat.parts) + 1
    for at, target in enumerate(against):
        *cheated, honest = results[at * step : (at + 1) * step]
        for result in cheated:
            assert _obeys(result), _name(result)
            assert result.score <= _empty(client, target)
            # What cheats of two runs print when they find what the first one left.
            assert "LEFTOVER" not in result.output
        assert honest.score == 1.0, f"after {cheat.name}: {_name(honest)}"
        assert honest.passed


def test_the_tier_that_was_asked_for_is_the_one_that_ran(client: DeepGym, options: dict[str, Any]) -> None:
    target = targets("function", slow=True)[0]
    (result,) = client.run_batch(target.honest, [target.honest.reference or ""]).results
    assert result.passed
    assert result.isolation == options.get("isolation", result.isolation)


def test_an_empty_answer_earns_nothing_anywhere(client: DeepGym) -> None:
    for shape in ("function", "program"):
        for target in targets(shape, slow=False):
            assert _empty(client, target) == 0.0


def test_there_are_a_hundred_cheats_and_no_claim_stands_twice() -> None:
    claims = Counter(cheat.claim for cheat in cheats())
    assert len(claims) >= 100
    assert max(claims.values()) == 1


@pytest.mark.parametrize("shape", ["function", "program"])
def test_a_cheat_of_each_shape_meets_three_environments(shape: str) -> None:
    for slow in (False, True):
        assert len({target.name for target in targets(shape, slow)}) >= 3
