"""RLOO, and what is logged of losses by sequences."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")


from deepgym_trl import masking
from deepgym_trl.trainers import DeepGymGRPOTrainer, DeepGymRLOOTrainer

lab: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("ranks") / "lab.py")))
Case = lab.Case
OUTAGE, NOTHING, ALL = lab.OUTAGE, lab.NOTHING, lab.ALL
PLAIN, EXTRAS = lab.PLAIN, lab.EXTRAS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rloo")


@pytest.fixture(scope="module")
def rloo(tiny_model: str, folder: Path) -> Any:
    return lab.stock("rloo", tiny_model, folder / "stock", beta=0.05)


# RLOO.

RLOO = [
    Case("alone", OUTAGE, {"beta": 0.0, "normalize_advantages": False}),
    Case("KL in the rewards", OUTAGE, {"beta": 0.05, "normalize_advantages": False}),
    Case("normalised", OUTAGE, {"beta": 0.05, "normalize_advantages": True}),
    Case("without a verdict", NOTHING, {"beta": 0.05, "normalize_advantages": True}),
    Case("without an outage", ALL, {"beta": 0.05, "normalize_advantages": True}),
]
KNOWN = {case.name: at for at, case in enumerate(RLOO)}


@pytest.fixture(scope="module")
def rloo_steps(tiny_model: str, folder: Path, rloo: Any) -> SimpleNamespace:
    metrics: list[dict[str, float]] = []

    def expect(record: Any, model: Any, step: int) -> Any:
        keep = lab.judged(RLOO[step])
        if not keep.any():
            keep = ~keep
        rloo._metrics["train"].clear()
        rows = lab.without(record.batches[step], keep)
        expected = lab.stock_gradient(rloo, model, rows, {"beta": RLOO[step].settings["beta"]})
        metrics.append({name: values[-1] for name, values in rloo._metrics["train"].items()})
        return expected

    record = lab.train(
        "rloo",
        tiny_model,
        folder / "rloo",
        RLOO,
        base=DeepGymRLOOTrainer,
        expect=expect,
        beta=0.05,
        learning_rate=1e-3,
    )
    return SimpleNamespace(record=record, metrics=metrics)


@pytest.mark.parametrize("name", ["alone", "KL in the rewards", "normalised"])
def test_rloo_gradients_are_those_of_the_judged_rows(rloo_steps: Any, name: str) -> None:
    at, record = KNOWN[name], rloo_steps.record
    assert record.expected[at].norm() > 0.05
    lab.close(record.gradients[at], record.expected[at])
    log = record.logs[at]
    assert log[masking.MASKED_ROWS] == 3 / 8
    for metric in ("entropy", "clip_ratio/low_mean", "clip_ratio/high_mean"):
        assert log[metric] == pytest.approx(rloo_steps.metrics[at][metric], abs=1e-5)


def test_rloo_has_no_gradient_without_a_verdict_and_trls_without_an_outage(rloo_steps: Any) -> None:
    record = rloo_steps.record
    nothing, everything = KNOWN["without a verdict"], KNOWN["without an outage"]
    assert float(record.gradients[nothing].abs().max()) == 0.0
    assert record.logs[nothing]["entropy"] is None
    lab.close(record.gradients[everything], record.expected[everything])


def test_a_long_masked_completion_does_not_overflow_rloos_ratio(tiny_model: str, folder: Path) -> None:
    """Its probability alone is too small for a float, and infinity times an advantage of 0 is NaN."""
    cases = [Case("long", OUTAGE)] * 3
    record = lab.train(
        "rloo",
        tiny_model,
        folder / "long",
        cases,
        base=DeepGymRLOOTrainer,
        longest=200,
        logging_nan_inf_filter=False,
    )
    kept = lab.judged(cases[0]).tolist()
    assert all(
        max(length for length, judged in zip(lengths, kept, strict=True) if not judged) > 60
        for lengths in record.lengths
    )
    for gradient, log in zip(record.gradients, record.logs, strict=True):
        assert log["loss"] == pytest.approx(0.0, abs=1e-6)
        assert gradient.isfinite().all()
        assert gradient.norm() > 0.05


@pytest.mark.parametrize(("kind", "base"), [("grpo", DeepGymGRPOTrainer), ("rloo", DeepGymRLOOTrainer)])
def test_clip_ratios_by_sequences_are_shares_of_the_judged_rows(
    tiny_model: str, folder: Path, kind: str, base: type
) -> None:
    """Off policy at a tiny epsilon: every judged row with an advantage is clipped or on its way."""
    options: dict[str, Any] = {"num_iterations": 2, "epsilon": 1e-6, "learning_rate": 1e-2}
    if kind == "grpo":
        options["importance_sampling_level"] = "sequence"
    stock = lab.stock(kind, tiny_model, folder / "stock", **options)
    seen: list[dict[str, float]] = []

    def expect(record: Any, model: Any, step: int) -> Any:
        stock._metrics["train"].clear()
        rows = lab.without(record.batches[0], lab.judged(cases[0]))
        expected = lab.stock_gradient(stock, model, rows, {})
        seen.append({name: values[-1] for name, values in stock._metrics["train"].items()})
        return expected

    cases = [Case("off policy", OUTAGE)]
    record = lab.train(
        kind, tiny_model, folder / f"clipped-{kind}", cases, base=base, expect=expect, steps=2, **options
    )
    lab.close(record.gradients[1], record.expected[1])
    assert seen[1]["clip_ratio/region_mean"] > 0.1
    logs = [line for line in record.trainer.state.log_history if "clip_ratio/region_mean" in line]
    for metric in ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"):
        assert logs[1][metric] == pytest.approx(seen[1][metric], abs=1e-6)
