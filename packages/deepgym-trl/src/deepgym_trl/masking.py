"""Rows without a verdict leave the loss, and not the baseline alone.

TRL (1.6 and later) gives a row advantage 0 if every reward function returned None for it. Such a row still
counts in what the loss is divided by, and the KL term and the entropy bonus still train on it.
``VerdictMaskMixin`` makes the gradient what it would be had these rows not been there:

    class MyTrainer(VerdictMaskMixin, trl.GRPOTrainer): ...

A micro-batch is computed as though it held its judged rows alone, and weighs in the step by their number. A
step without any verdict has a gradient of exactly 0 (an optimizer's momentum may still move the weights).

What still sees such a row: a mixture of experts' load-balancing loss (unless no row of the micro-batch was
judged), and the metrics ``vespo/phi_seq_mean``, ``clip_ratio/low_min`` of a loss by sequences, RLOO's ``kl``
and, below TRL 1.9, the mean over ranks of ``kl``, ``entropy`` and clip ratios if a rank has no judged row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

__all__ = ["MASKED_ROWS", "TOUCHES", "VerdictMaskMixin"]

#: The metric: which share of the generation batch had no verdict. The same on every rank.
MASKED_ROWS = "deepgym/masked_rows"

#: What of TRL this stands on, beside the keys of the batch that ``_generate_and_score_completions`` returns.
TOUCHES: tuple[str, ...] = (
    "trl.GRPOTrainer._calculate_rewards",
    "trl.GRPOTrainer._compute_loss",
    "trl.GRPOTrainer._generate_and_score_completions",
    "trl.GRPOTrainer.compute_loss",
    "trl.GRPOTrainer(): _metrics",
    "trl.GRPOTrainer(): accelerator",
    "trl.GRPOTrainer(): beta",
    "trl.GRPOTrainer(): importance_sampling_level",
    "trl.GRPOTrainer(): loss_type",
    "trl.RLOOTrainer._calculate_rewards",
    "trl.RLOOTrainer._compute_loss",
    "trl.RLOOTrainer._generate_and_score_completions",
    "trl.RLOOTrainer.compute_loss",
    "trl.RLOOTrainer(): _metrics",
    "trl.RLOOTrainer(): accelerator",
    "trl.RLOOTrainer(): beta",
)

Divisor = Literal["rows", "micro_batch_tokens", "batch_tokens"]

_DIVISORS: dict[str, Divisor] = {
    "grpo": "rows",
    "dr_grpo": "rows",
    "luspo": "rows",
    "sapo": "rows",
    "bnpo": "micro_batch_tokens",
    "cispo": "batch_tokens",
    "dapo": "batch_tokens",
    "vespo": "batch_tokens",
}
_JUDGED = "deepgym_judged"
_ROWS_PER_JUDGED = "deepgym_rows_per_judged"
# Its state: without an active token on any rank it reads an entropy of 0. TRL 1.8 and later.
_ENTROPY_CONTROLLER = ("entropy_coef", "_last_world_entropy")
_MEANS_OF_ROWS = ("clip_ratio/high_mean", "clip_ratio/low_mean", "clip_ratio/region_mean", "cispo_clip_ratio")

if TYPE_CHECKING:

    class _Trainer:
        accelerator: Any
        model: Any
        beta: float
        _metrics: dict[str, dict[str, list[float]]]

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def _calculate_rewards(
            self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
        ) -> Any: ...
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]: ...
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any: ...
else:
    _Trainer = object


@dataclass(frozen=True)
class _Scored:
    """``judged``: for each row of all ranks, whether any function scored it; ``lengths``: of this rank's."""

    judged: Any
    lengths: Sequence[int]


class VerdictMaskMixin(_Trainer):
    """Stands before ``GRPOTrainer``, ``RLOOTrainer`` or a subclass of them that computes the same loss.

    A loss that it doesn't know is refused with a ``ValueError`` when the trainer is made. A subclass with a
    loss of its own says in ``loss_divides_by`` what that divides the sum over the rows by: the ``rows`` or
    the unmasked tokens of a micro-batch, or ``num_items_in_batch``.
    """

    loss_divides_by: ClassVar[Divisor | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _divisor(self)
        self._scored: _Scored | None = None

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._scored = _Scored(~rewards.isnan().all(dim=1), [len(ids) for ids in completion_ids_list])
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's batch with its rows without a verdict masked; ``RuntimeError`` if no reward was asked for."""
        batch = super()._generate_and_score_completions(inputs)
        scored, self._scored = self._scored, None
        if scored is None:
            raise RuntimeError(
                f"{type(self).__name__} scored a batch without _calculate_rewards, so VerdictMaskMixin can't "
                "tell which rows have a verdict; mix it into a trainer that scores as TRL's GRPOTrainer does"
            )
        self._metrics[_mode(self)][MASKED_ROWS].append(1.0 - scored.judged.float().mean().item())
        return _masked(self.accelerator, batch, scored)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of the judged rows, times what they weigh; 0 if there are none."""
        if _JUDGED not in inputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        rows, judged = len(inputs[_JUDGED]), int(inputs[_JUDGED].sum())
        ratio = float(inputs[_ROWS_PER_JUDGED])
        weight = judged / rows * ratio
        restored = ("beta",) if ratio else ("beta", *_ENTROPY_CONTROLLER)
        before = {name: getattr(self, name) for name in restored if hasattr(self, name)}
        changed, divisor = dict(inputs), _divisor(self)
        try:
            if judged and divisor == "rows":
                # Through the policy's and the KL term's factors: the entropy bonus divides by tokens.
                changed["advantages"] = inputs["advantages"] * (rows / judged)
                self.beta *= rows / judged
            elif judged and divisor == "batch_tokens":
                # Takes back the weight below, which isn't for what is divided by the whole batch's tokens.
                changed["num_items_in_batch"] = inputs["num_items_in_batch"] * weight
            with _metrics_of_judged_rows(self, rows, inputs[_JUDGED]):
                loss = super().compute_loss(model, changed, return_outputs, num_items_in_batch)
        finally:
            for name, value in before.items():
                setattr(self, name, value)
        return loss * weight


def _divisor(trainer: Any) -> Divisor:
    if getattr(trainer, "use_liger_kernel", False):
        raise ValueError("VerdictMaskMixin can't reach into Liger's loss: set use_liger_kernel=False")
    if trainer.loss_divides_by is not None:
        return trainer.loss_divides_by  # type: ignore[no-any-return]
    loss = type(trainer)._compute_loss.__qualname__
    if loss == "RLOOTrainer._compute_loss":
        return "rows"
    if loss != "GRPOTrainer._compute_loss":
        raise ValueError(
            f"VerdictMaskMixin doesn't know what {loss} divides by: "
            f"set loss_divides_by in {type(trainer).__name__}"
        )
    if trainer.loss_type not in _DIVISORS:
        raise ValueError(
            f"VerdictMaskMixin doesn't know loss_type={trainer.loss_type!r}: choose one of "
            f"{', '.join(_DIVISORS)}, or set loss_divides_by in {type(trainer).__name__}"
        )
    return _DIVISORS[trainer.loss_type]


def _mode(trainer: Any) -> str:
    return "train" if trainer.model.training else "eval"


def _masked(accelerator: Any, batch: dict[str, Any], scored: _Scored) -> dict[str, Any]:
    completions, rows = batch["completion_mask"], len(scored.lengths)
    start = accelerator.process_index * rows
    judged = scored.judged[start : start + rows]
    count = int(scored.judged.sum())
    changed = {
        **batch,
        _JUDGED: judged,
        # A tensor without dimensions: TRL hands it on to every micro-batch as it is.
        _ROWS_PER_JUDGED: batch["advantages"].new_tensor(len(scored.judged) / count if count else 0.0),
    }
    keep = judged.unsqueeze(1).to(completions.dtype)
    if "old_logps" in batch:
        # RLOO reads no tool mask. Both sides of the ratio become 0: a ratio of 1 under advantage 0.
        changed["completion_mask"] = completions * keep
        changed["old_logps"] = batch["old_logps"] * judged
    else:
        own = batch.get("tool_mask", completions.new_ones(completions.shape))
        lengths = _lengths(accelerator, batch["num_items_in_batch"], completions * own, scored)
        dropped = accelerator.gather((lengths * ~judged).sum()).sum()
        changed["tool_mask"] = own * keep
        # At least 1: below 1.9 TRL divides by it as it is.
        changed["num_items_in_batch"] = (batch["num_items_in_batch"] - dropped).clamp(min=1)
    return changed


def _lengths(accelerator: Any, total: Any, mask: Any, scored: _Scored) -> Any:
    """What each of this rank's rows has in ``num_items_in_batch``, which is ``total``."""
    tokens = mask.sum(dim=1)
    if int(accelerator.gather(tokens.sum()).sum()) == int(total):
        return tokens
    # Below 1.9 it counts truncated completions although mask_truncated_completions masks them.
    return tokens.new_tensor(scored.lengths)


@contextmanager
def _metrics_of_judged_rows(trainer: Any, rows: int, judged: Any) -> Iterator[None]:
    """Correct what the block logs: NaN, which TRL leaves out, if no rank has a judged row; and the shares of
    rows, which TRL takes of all rows.
    """
    logged = trainer._metrics[_mode(trainer)]
    before = {name: len(values) for name, values in logged.items()}
    counts = trainer.accelerator.gather(judged.sum().reshape(1))
    yield
    count = int(counts.sum())
    by_rows = getattr(trainer, "importance_sampling_level", "sequence") == "sequence"
    for name, values in logged.items():
        if len(values) == before.get(name, 0):
            continue
        if not count:
            values[-1] = float("nan")
        elif by_rows and name in _MEANS_OF_ROWS:
            values[-1] *= rows * len(counts) / count
