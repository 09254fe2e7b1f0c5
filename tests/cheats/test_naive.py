"""Each cheat is real: it pays, or loses its sample, on a harness that stands here."""

from __future__ import annotations

import pytest

from .catalogue import Cheat, cheats
from .harnesses import ENTRY, NAMES, WRONG, honest, reward, shape

pytestmark = pytest.mark.local_sandbox


def _kinds(harness: str) -> tuple[str, ...]:
    return ("function", "program") if shape(harness) == "any" else (shape(harness),)


@pytest.mark.parametrize("harness", NAMES)
def test_a_naive_harness_pays_an_honest_answer_and_nothing_else(harness: str) -> None:
    for kind in _kinds(harness):
        assert reward(harness, kind, honest(kind)) == 1.0
        for answer in WRONG[kind]:
            assert reward(harness, kind, answer) == 0.0, answer


def test_every_naive_harness_is_beaten_by_a_cheat() -> None:
    assert {harness for cheat in cheats() for harness, _ in cheat.naive} == set(NAMES)


def test_a_cheat_works_on_a_naive_harness(cheat: Cheat, harness: str, pays: bool) -> None:
    kinds = ("function",) if shape(harness) == "sorting" else _kinds(harness)
    assert cheat.shape in kinds, f"{harness} judges no {cheat.shape}"
    got = reward(harness, cheat.shape, *cheat.answers(ENTRY))
    assert got == (1.0 if pays else None)
