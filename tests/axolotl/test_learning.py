"""Why ``None`` and not 0, with Axolotl's own command: what a policy learns while our side fails."""

from __future__ import annotations

import statistics
import types
from pathlib import Path
from typing import Any

import pytest

from deepgym_axolotl import reward

from .axo import Run, base, letters, train
from .outages import Scored, Struck, client


def good(text: str) -> bool:
    """The better behaviour: an answer that begins with a letter."""
    return text[:1].isascii() and text[:1].isalpha()


def worth(text: str) -> float:
    return 1.0 if good(text) else 0.65


def learn(model: str, folder: Path, chance: Any, **trl: Any) -> list[float]:
    """Share of good answers in each batch of a run in which our side fails runs with that chance, if any."""
    zero = types.ModuleType("zero")
    zero.reward = as_zero  # type: ignore[attr-defined]
    cfg = base(
        model,
        folder,
        deepgym={"env": letters(folder / "letters"), "extract": False, "warn_above": 0.9},
        trl={"num_generations": 8, "max_completion_length": 2, **trl},
        micro_batch_size=32,
        max_steps=30,
        learning_rate=2e-2,
    )
    provider = Scored(worth) if chance is None else Struck(Scored(worth), chance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepgym.client.DeepGym", client(lambda: provider))
        run = train(cfg, folder, zero=zero)
    if chance is not None:
        assert lost(run) > 0.1, "our side failed too little to show anything"
    return [statistics.fmean(good(text.strip()) for text in batch.texts) for batch in run.batches]


def lost(run: Run) -> float:
    return 1.0 - statistics.fmean(log["deepgym/verdict_rate"] for log in run.logs)


def as_zero(prompts: Any, completions: Any, **given: Any) -> list[float]:
    """What most judges do with an outage."""
    return [0.0 if one is None else one for one in reward(prompts, completions, **given)]


def ends(shares: list[float]) -> tuple[float, float]:
    return statistics.fmean(shares[:3]), statistics.fmean(shares[-3:])


def test_a_policy_learns_as_well_while_a_fifth_of_the_runs_fail_on_our_side(
    tiny_model: str, tmp_path: Path
) -> None:
    calm = ends(learn(tiny_model, tmp_path / "calm", None))
    first, last = ends(learn(tiny_model, tmp_path / "outages", lambda text: 0.2))
    assert first < 0.5
    assert last > 0.9
    assert last == pytest.approx(calm[1], abs=0.1)


def test_an_outage_that_hits_the_better_answers_teaches_them_as_none_and_unteaches_them_as_0(
    tiny_model: str, tmp_path: Path
) -> None:
    def chance(text: str) -> float:
        return 0.6 if good(text) else 0.0

    as_none = ends(learn(tiny_model, tmp_path / "none", chance))
    as_0 = ends(learn(tiny_model, tmp_path / "zero", chance, reward_funcs=["zero.reward"]))
    assert as_none[0] == pytest.approx(as_0[0], abs=0.1)
    assert as_none[1] > as_none[0] + 0.4
    assert as_0[1] < as_0[0] - 0.2
