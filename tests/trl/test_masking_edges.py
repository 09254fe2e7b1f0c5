"""What a trainer may do beside the plain loss, and what the mask refuses."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")

import torch

from deepgym_trl import masking
from deepgym_trl.trainers import DeepGymGRPOTrainer, DeepGymRLOOTrainer

lab: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("ranks") / "lab.py")))
Case = lab.Case
OUTAGE, NOTHING, ALL = lab.OUTAGE, lab.NOTHING, lab.ALL
PLAIN, EXTRAS = lab.PLAIN, lab.EXTRAS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("edges")


@pytest.fixture(scope="module")
def grpo(tiny_model: str, folder: Path) -> Any:
    return lab.stock("grpo", tiny_model, folder / "stock", beta=0.05)


@pytest.fixture(scope="module")
def rloo(tiny_model: str, folder: Path) -> Any:
    return lab.stock("rloo", tiny_model, folder / "stock", beta=0.05)


@pytest.mark.skipif(not lab.HAS_ENTROPY_BONUS, reason="this TRL has no entropy bonus")
def test_a_batch_without_a_verdict_does_not_steer_the_entropy_bonus(tiny_model: str, folder: Path) -> None:
    """It would be read as an entropy of 0, and the bonus raised for it."""
    held: list[tuple[float, float]] = []

    def watch(record: Any, model: Any, step: int) -> None:
        held.append((record.trainer.entropy_coef, record.trainer._last_world_entropy))

    lab.train(
        "grpo",
        tiny_model,
        folder / "adaptive",
        [Case("nothing", NOTHING), Case("outage", OUTAGE), Case("nothing", NOTHING)],
        base=DeepGymGRPOTrainer,
        expect=watch,
        use_adaptive_entropy=True,
        entropy_target=10.0,
        entropy_coef_delta=0.25,
    )
    assert held[0] == (0.0, float("inf"))
    assert held[1] == (0.25, pytest.approx(5.9, abs=0.1))
    assert held[2] == held[1]


def test_a_loss_of_a_subclass_is_divided_by_what_the_class_says(tiny_model: str, folder: Path) -> None:
    gmpo = pytest.importorskip("trl.experimental.gmpo", reason="this TRL has no GMPO")

    class Masked(masking.VerdictMaskMixin, gmpo.GMPOTrainer):  # type: ignore[misc, name-defined]
        loss_divides_by = "rows"

    case = Case("gmpo", OUTAGE)
    stock = gmpo.GMPOTrainer(
        model=tiny_model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=lab.arguments("grpo", folder / "stock", beta=0.05),
        train_dataset=lab.dataset(8),
    )
    stock.current_gradient_accumulation_steps = 1
    record = lab.train(
        "grpo", tiny_model, folder / "gmpo", [case], base=Masked, expect=lab.whole(stock, [case]), beta=0.05
    )
    lab.close(record.gradients[0], record.expected[0])


def test_a_row_that_any_reward_function_scored_is_not_masked(tiny_model: str, folder: Path) -> None:
    def first(completions: Any, **_: Any) -> Any:
        return [None, None, 1.0, 0.0, *[1.0, 0.0] * 2][: len(completions)]

    def second(completions: Any, **_: Any) -> Any:
        return [0.5, None, None, None, *[1.0] * 4][: len(completions)]

    record = lab.train(
        "grpo",
        tiny_model,
        folder / "two",
        [Case("two", ())],
        base=DeepGymGRPOTrainer,
        reward_funcs=[first, second],
    )
    assert record.batches[0]["deepgym_judged"].tolist() == [True, False, *[True] * 6]
    assert record.logs[0][masking.MASKED_ROWS] == 1 / 8


# Truncated completions and masks of an environment.


def test_truncated_completions_are_counted_as_trl_counts_them(
    tiny_model: str, folder: Path, grpo: Any
) -> None:
    cases = [Case("dapo", rewards, {**PLAIN, "loss_type": "dapo"}) for rewards in (ALL, OUTAGE)]

    def expect(record: Any, model: Any, step: int) -> Any:
        keep, batch = lab.judged(cases[step]), record.batches[step]
        lengths = (
            torch.tensor(record.lengths[step])
            if lab.COUNTS_TRUNCATED
            else batch["completion_mask"].sum(dim=1)
        )
        rows = lab.without(batch, keep, int(lengths[keep].sum()))
        return lab.stock_gradient(grpo, model, rows, cases[step].settings)

    record = lab.train(
        "grpo",
        tiny_model,
        folder / "truncated",
        cases,
        base=DeepGymGRPOTrainer,
        expect=expect,
        mask_truncated_completions=True,
    )
    for at, case in enumerate(cases):
        cut = record.batches[at]["completion_mask"].sum(dim=1) == 0
        assert cut[lab.judged(case)].any()
        assert not cut[lab.judged(case)].all()
        lab.close(record.gradients[at], record.expected[at])


def test_an_environments_own_mask_is_kept(tiny_model: str, folder: Path, grpo: Any) -> None:
    masks = [[1, 0, 0, 1, 1], [1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [1, 1, 1, 0, 0]] * 2

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        words = trainer.processing_class
        return {
            "prompt_ids": [[60 + at, 70] for at, _ in enumerate(prompts)],
            "completion_ids": [[80 + at, 90, 100, 110, words.eos_token_id] for at, _ in enumerate(prompts)],
            "logprobs": [[-5.0] * 5 for _ in prompts],
            "env_mask": masks,
        }

    cases = [Case(loss, OUTAGE, {**PLAIN, "loss_type": loss}) for loss in ("dapo", "grpo")]
    record = lab.train(
        "grpo",
        tiny_model,
        folder / "masks",
        cases,
        base=DeepGymGRPOTrainer,
        expect=lab.whole(grpo, cases),
        scripted=False,
        more={"rollout_func": rollout},
    )
    for at in range(len(cases)):
        keep = lab.judged(cases[at])
        assert record.batches[at]["tool_mask"].tolist() == [
            mask if kept else [0] * 5 for mask, kept in zip(masks, keep.tolist(), strict=True)
        ]
        assert int(record.batches[at]["num_items_in_batch"]) == sum(
            sum(mask) for mask, kept in zip(masks, keep.tolist(), strict=True) if kept
        )
        lab.close(record.gradients[at], record.expected[at])


@pytest.mark.parametrize(("kind", "base"), [("grpo", DeepGymGRPOTrainer), ("rloo", DeepGymRLOOTrainer)])
def test_evaluation_leaves_the_rows_out_too(tiny_model: str, folder: Path, kind: str, base: type) -> None:
    case = Case("evaluation", OUTAGE)
    record = lab.train(
        kind,
        tiny_model,
        folder / f"evaluation-{kind}",
        [case],
        base=base,
        more={"eval_dataset": lab.dataset(2)},
        per_device_eval_batch_size=8,
        beta=0.05,
    )
    scores = record.trainer.evaluate()
    stock = lab.stock(kind, tiny_model, folder / "stock", beta=0.05)
    stock.model.eval()
    with torch.no_grad():
        expected = stock.compute_loss(record.trainer.model, lab.without(record.batches[-1], lab.judged(case)))
    assert len(record.batches) == 2
    assert scores["eval_loss"] == pytest.approx(float(expected), abs=1e-6)
    logged = record.trainer.state.log_history[-1]
    assert logged[f"eval_{masking.MASKED_ROWS}"] == 3 / 8


# What it refuses.


class OwnLoss(DeepGymGRPOTrainer):
    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        return super()._compute_loss(model, inputs)


class SaidLoss(OwnLoss):
    loss_divides_by = "rows"


def made(base: type, model: str, folder: Path, **options: Any) -> Any:
    return base(
        model=model,
        reward_funcs=lambda completions, **_: [None] * len(completions),
        args=lab.arguments("grpo", folder, **options),
        train_dataset=lab.dataset(8),
    )


def test_a_loss_that_it_does_not_know_is_refused_before_anything_runs(tiny_model: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="doesn't know loss_type='tomorrow'"):
        made(DeepGymGRPOTrainer, tiny_model, folder, loss_type="tomorrow")
    with pytest.raises(ValueError, match=r"what OwnLoss\._compute_loss divides by: set loss_divides_by"):
        made(OwnLoss, tiny_model, folder)
    made(SaidLoss, tiny_model, folder)


def test_ligers_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="use_liger_kernel=False"):
        masking._divisor(SimpleNamespace(loss_divides_by=None, use_liger_kernel=True))


def test_a_subclass_that_scores_in_another_way_is_an_error_and_not_a_silent_batch(
    tiny_model: str, folder: Path
) -> None:
    class Elsewhere(lab.BASES["grpo"]):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return {}

    class Mixed(masking.VerdictMaskMixin, Elsewhere):
        pass

    with pytest.raises(RuntimeError, match="without _calculate_rewards"):
        made(Mixed, tiny_model, folder, max_steps=1).train()


def test_inputs_that_were_not_generated_here_go_through_untouched(tiny_model: str, folder: Path) -> None:
    trainer = made(DeepGymGRPOTrainer, tiny_model, folder)
    other = lab.train("grpo", tiny_model, folder / "other", [Case("all", ALL)])
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer.compute_loss(trainer.model, dict(other.batches[0]))
    loss.backward()
    lab.close(lab.gradient(trainer.model), other.gradients[0])


def test_what_it_touches_is_there(grpo: Any, rloo: Any) -> None:
    made_of = {"GRPOTrainer": grpo, "RLOOTrainer": rloo}
    for name in masking.TOUCHES:
        owner, _, attribute = name.removeprefix("trl.").partition("(): " if "(): " in name else ".")
        assert hasattr(made_of[owner] if "(): " in name else type(made_of[owner]), attribute), name
