"""The gradient of a batch with masked rows is that of the batch had those rows not been there."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")

import torch

from deepgym_trl import masking
from deepgym_trl.trainers import DeepGymGRPOTrainer

lab: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("ranks") / "lab.py")))
Case = lab.Case
OUTAGE, NOTHING, ALL = lab.OUTAGE, lab.NOTHING, lab.ALL
PLAIN, EXTRAS = lab.PLAIN, lab.EXTRAS

BY_ROWS = ("grpo", "dr_grpo", "luspo", "sapo")
BY_TOKENS = ("dapo", "cispo", "vespo")
LOSSES = (*BY_ROWS, *BY_TOKENS, "bnpo")

SEQUENCE = {**EXTRAS, "importance_sampling_level": "sequence"}

CASES = {
    case.name: case
    for loss in LOSSES
    for case in (
        Case(f"{loss} alone", OUTAGE, {**PLAIN, "loss_type": loss}),
        Case(f"{loss} with KL and entropy", OUTAGE, {**EXTRAS, "loss_type": loss}),
        Case(f"{loss} by sequences", OUTAGE, {**SEQUENCE, "loss_type": loss}),
        Case(f"{loss} without a verdict", NOTHING, {**EXTRAS, "loss_type": loss}),
        Case(f"{loss} without an outage", ALL, {**EXTRAS, "loss_type": loss}),
    )
}
OUTAGES = [name for name, case in CASES.items() if case.rewards is OUTAGE]
METRICS = ("entropy", "kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "cispo_clip_ratio")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("masking")


@pytest.fixture(scope="module")
def grpo(tiny_model: str, folder: Path) -> Any:
    return lab.stock("grpo", tiny_model, folder / "stock", beta=0.05)


@pytest.fixture(scope="module")
def losses(tiny_model: str, folder: Path, grpo: Any) -> dict[str, SimpleNamespace]:
    """One training run through every case: the gradient, TRL's without the rows, TRL's with them, and the logs."""
    cases, kept = list(CASES.values()), []

    def expect(record: Any, model: Any, step: int) -> Any:
        case, batch = cases[step], record.batches[step]
        unmasked = {name: value for name, value in batch.items() if name != "tool_mask"}
        everything = lab.without(unmasked, torch.ones(8, dtype=torch.bool))
        stock = lab.stock_gradient(grpo, model, everything, case.settings)
        kept.append({"stock": stock})
        if not lab.judged(case).any():
            return torch.zeros_like(stock)
        grpo._metrics["train"].clear()
        expected = lab.stock_gradient(grpo, model, lab.without(batch, lab.judged(case)), case.settings)
        kept[-1]["metrics"] = {name: values[-1] for name, values in grpo._metrics["train"].items()}
        kept[-1]["tokens"] = int(lab.without(batch, lab.judged(case))["num_items_in_batch"])
        kept[-1]["all_tokens"] = int(everything["num_items_in_batch"])
        return expected

    record = lab.train(
        "grpo",
        tiny_model,
        folder / "losses",
        cases,
        base=DeepGymGRPOTrainer,
        expect=expect,
        beta=0.05,
        learning_rate=1e-3,
    )
    return {
        case.name: SimpleNamespace(
            gradient=record.gradients[at],
            expected=record.expected[at],
            batch=record.batches[at],
            log=record.logs[at],
            **kept[at],
        )
        for at, case in enumerate(cases)
    }


@pytest.mark.parametrize("name", OUTAGES)
def test_masked_rows_leave_the_gradient_as_though_they_had_not_been_there(losses: Any, name: str) -> None:
    step = losses[name]
    assert step.expected.norm() > 0.05
    lab.close(step.gradient, step.expected)
    assert (step.stock - step.expected).norm() > 0.05 * step.expected.norm()


@pytest.mark.parametrize("loss", LOSSES)
def test_what_trl_makes_smaller_by_the_masked_rows_is_made_good(losses: Any, loss: str) -> None:
    step = losses[f"{loss} alone"]
    share = 5 / 8 if loss in BY_ROWS else step.tokens / step.all_tokens
    assert float(step.stock.norm() / step.gradient.norm()) == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_without_any_verdict_has_a_gradient_of_exactly_zero(losses: Any, loss: str) -> None:
    step = losses[f"{loss} without a verdict"]
    assert float(step.gradient.abs().max()) == 0.0
    assert step.stock.norm() > 1e-4, "the KL term and the entropy bonus train on it in TRL"
    assert step.log["loss"] == 0.0
    assert step.log[masking.MASKED_ROWS] == 1.0
    assert step.log["entropy"] is None
    assert step.log["kl"] is None


@pytest.mark.parametrize("loss", LOSSES)
def test_without_an_outage_the_gradient_is_trls(losses: Any, loss: str) -> None:
    step = losses[f"{loss} without an outage"]
    lab.close(step.gradient, step.stock)
    assert step.log[masking.MASKED_ROWS] == 0.0


@pytest.mark.parametrize("name", OUTAGES)
def test_metrics_are_those_of_the_judged_rows(losses: Any, name: str) -> None:
    step = losses[name]
    assert step.log[masking.MASKED_ROWS] == 3 / 8
    named = [metric for metric in METRICS if metric in step.metrics]
    assert "entropy" in named
    for metric in named:
        assert step.log[metric] == pytest.approx(step.metrics[metric], abs=1e-5), metric


# Micro-batches: what is averaged over them, and a batch that serves several steps.


def micro_batches(record: Any, step: int) -> Any:
    args = record.trainer.args
    size = args.gradient_accumulation_steps
    start = step * size % args.steps_per_generation
    return record.trainer._buffered_inputs[start : start + size]


MICRO = [Case(loss, OUTAGE, {**PLAIN, "beta": 0.05, "loss_type": loss}) for loss in (*BY_ROWS, *BY_TOKENS)]


@pytest.fixture(scope="module")
def accumulated(tiny_model: str, folder: Path, grpo: Any) -> Any:
    return lab.train(
        "grpo",
        tiny_model,
        folder / "accumulated",
        MICRO,
        base=DeepGymGRPOTrainer,
        expect=lab.whole(grpo, MICRO),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        beta=0.05,
        learning_rate=1e-3,
    )


@pytest.mark.parametrize("at", range(len(MICRO)), ids=[case.name for case in MICRO])
def test_micro_batches_add_up_to_the_gradient_of_the_judged_rows(accumulated: Any, at: int) -> None:
    lab.close(accumulated.gradients[at], accumulated.expected[at])


REUSED = [Case(loss, OUTAGE, {**EXTRAS, "loss_type": loss}) for loss in LOSSES]


@pytest.fixture(scope="module")
def reused(tiny_model: str, folder: Path) -> SimpleNamespace:
    """Batches of four micro-batches that serve two steps each, twice: the second time off policy."""
    options = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "num_iterations": 2,
        "beta": 0.05,
    }
    stock = lab.stock("grpo", tiny_model, folder / "stock", **options)
    stock.current_gradient_accumulation_steps = 2
    sizes: list[int] = []

    def expect(record: Any, model: Any, step: int) -> Any:
        case = REUSED[step // 4]
        total, off = 0, {**case.settings, **{k: PLAIN[k] for k in PLAIN if "entropy" in k}}
        tokens = int(lab.without(record.batches[step // 4], lab.judged(case))["num_items_in_batch"])
        for inputs in micro_batches(record, step):
            keep = inputs["deepgym_judged"]
            sizes.append(int(keep.sum()))
            assert inputs["deepgym_rows_per_judged"].dim() == 0
            if not keep.any():
                continue
            rows = lab.without(inputs, keep, tokens)
            weight = int(keep.sum()) / 2 * 8 / 5
            policy = lab.stock_gradient(stock, model, rows, off)
            both = lab.stock_gradient(stock, model, rows, case.settings)
            by_tokens = case.settings["loss_type"] in BY_TOKENS
            total = total + policy * (1 if by_tokens else weight)
            total = total + (both - policy) * (1 if by_tokens and lab.ENTROPY_BY_TOKENS else weight)
        return total

    record = lab.train(
        "grpo",
        tiny_model,
        folder / "reused",
        REUSED,
        base=DeepGymGRPOTrainer,
        expect=expect,
        steps=4 * len(REUSED),
        learning_rate=1e-3,
        **options,
    )
    return SimpleNamespace(record=record, sizes=sizes)


@pytest.mark.parametrize("at", range(len(REUSED)), ids=[case.name for case in REUSED])
def test_each_micro_batch_weighs_what_its_judged_rows_do(reused: Any, at: int) -> None:
    for step in range(4 * at, 4 * at + 4):
        lab.close(reused.record.gradients[step], reused.record.expected[step])


def test_batches_were_used_off_policy_and_some_micro_batches_had_no_verdict(reused: Any) -> None:
    assert len(reused.record.batches) == len(REUSED)
    assert all("old_per_token_logps" in batch for batch in reused.record.batches)
    assert set(reused.sizes) == {0, 1, 2}
