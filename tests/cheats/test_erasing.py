"""Answers that try to lose their own 0, where a run has more than one process or an interpreter of its own."""

from __future__ import annotations

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import Case, Cases, Environment, EnvironmentLimits

from .catalogue import Cheat, cheats

pytestmark = pytest.mark.local_sandbox

#: Characters of a result's JSON: two streams of 64 KiB, escaped, and what else there is.
_MOST = 1 << 20
_ERASERS = [cheat for cheat in cheats() if cheat.name.startswith("erasing/") and cheat.shape == "function"]
_ONE_BY_ONE = Environment(
    name="erasing/one-by-one",
    task="Write `turned(text, times)`: the text turned round, as often as asked.",
    verify=Cases(
        function="turned",
        cases=tuple(Case(args=(f"ab{n}", n), expected=[f"{n}ba"] * n) for n in range(2, 8)),
    ),
    limits=EnvironmentLimits(wall=1.0, case_timeout=0.15),
    reference="def turned(text, times):\n    return [text[::-1]] * times\n",
)
_PATIENT = EnvironmentLimits(wall=20.0, case_timeout=10.0)
_STARTED = _ONE_BY_ONE.model_copy(
    update={
        "name": "erasing/started",
        "interpreter": ("python3",),
        "limits": EnvironmentLimits(wall=1.5),
    }
)


def _problem(result: RunResult) -> str | None:
    text = result.model_dump_json()
    if len(text) > _MOST:
        return f"{len(text)} characters"
    text.encode("utf-8")
    if RunResult.model_validate_json(text) != result:
        return "it changes in JSON"
    if not result.has_verdict or result.reward != 0.0 or result.passed:
        return f"{result.error_type}: {result.error}, score {result.score}"
    return None


@pytest.mark.parametrize("environment", [_ONE_BY_ONE, _STARTED], ids=lambda one: one.name)
@pytest.mark.parametrize("eraser", _ERASERS, ids=lambda one: one.name)
def test_an_answer_keeps_its_0_and_the_next_run_is_sound(
    client: DeepGym, environment: Environment, eraser: Cheat
) -> None:
    patient = environment.model_copy(update={"limits": _PATIENT})
    cheating = eraser.answers("turned")
    places = [environment] * len(cheating) + [patient]
    *cheated, honest = client.run_batch(places, [*cheating, environment.reference or ""]).results
    for result in cheated:
        assert _problem(result) is None, result.stderr[-500:]
    assert honest.score == 1.0, f"{honest.error_type}: {honest.error} {honest.stderr[-500:]}"


def test_there_are_enough_erasers_and_each_shape_has_some() -> None:
    shapes = [cheat.shape for cheat in cheats() if cheat.name.startswith("erasing/")]
    assert len(shapes) >= 55
    assert min(shapes.count("function"), shapes.count("program")) >= 20
