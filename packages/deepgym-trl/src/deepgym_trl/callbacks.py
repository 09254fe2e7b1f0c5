"""Callbacks for a trainer: an alarm for samples that training leaves out, and a look at its rewards."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from .composite import unmasking
from .parts import deepgym_of, name_of

__all__ = ["MaskedRateCallback", "RewardListCallback"]

logger = logging.getLogger(__name__)

_RATE = "deepgym/verdict_rate"
_KINDS = "deepgym/no_verdict/"
#: Logged rates are means of float32 numbers: 0.95 comes back as 0.94999999.
_ROUNDING = 1e-6


class MaskedRateCallback(TrainerCallback, ExportableState):
    """Warns when more than ``limit`` of at least ``window`` consecutive samples got no verdict.

    A policy that learns to bring about failures that get masked escapes their penalty, so a rate that climbs
    is either an outage or such a failure. One warning a window, logged by the world's process zero as soon as
    the limit is certain to be passed, with the error types by share. With ``stop_above``, training stops, and
    a checkpoint is saved, after ``patience`` windows in a row of which more than that share got no verdict.

    It reads ``deepgym/verdict_rate`` from the trainer's training logs. Those are gathered, so every rank
    counts and decides the same. How many samples a log is for, no log says; it is taken from the arguments:
    optimizer steps since the last log with the key x ``per_device_train_batch_size x
    gradient_accumulation_steps x world_size / num_iterations``, and at least one generation batch. That is
    exact where a log comes at a generation batch's end, and off by less than one batch per log elsewhere;
    over many logs it evens out. Several DeepGym rewards in one list are averaged. Evaluation doesn't count.

    Counts go into each checkpoint and come back with ``restore_callback_states_from_checkpoint=True`` (as do
    the arguments, as for every callback); without it a resumed run starts a new window.

    Raises:
        ValueError: an argument is out of its range.
    """

    def __init__(
        self,
        window: int = 100,
        limit: float = 0.05,
        stop_above: float | None = None,
        patience: int = 1,
        name: str = "",
    ) -> None:
        if window < 1 or patience < 1:
            raise ValueError(f"window and patience are at least 1, not {window} and {patience}")
        for what, share in (("limit", limit), ("stop_above", 0.0 if stop_above is None else stop_above)):
            if not 0 <= share < 1:
                raise ValueError(f"{what} is a share of samples, at least 0 and less than 1, not {share}")
        self.window = window
        self.limit = limit
        self.stop_above = stop_above
        self.patience = patience
        self.name = name
        self.samples = 0.0
        self.masked: dict[str, float] = {}
        self.warned = False
        self.windows_above = 0
        self._step = 0
        self._seen: bool | None = None

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it (see ``transformers.trainer_callback.ExportableState``)."""
        arguments = ("window", "limit", "stop_above", "patience", "name")
        counts = ("samples", "masked", "warned", "windows_above")
        return {
            "args": {key: getattr(self, key) for key in arguments},
            "attributes": {key: getattr(self, key) for key in counts},
        }

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count from here: what was generated before a checkpoint was logged before it, or never will be."""
        self._step = state.global_step
        self._seen = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Count a training log's samples; warn and stop where that is due."""
        rate = (logs or {}).get(_RATE)
        if not isinstance(rate, (int, float)) or not math.isfinite(rate):
            self._missed(state, logs or {})
            return
        self._seen = True
        self._count(_samples(args, state.global_step - self._step), float(rate), logs)
        self._step = state.global_step
        if self._above(self.limit, max(self.samples, self.window)) and not self.warned:
            self.warned = True
            self._say(state, self._alarm())
        if self.samples >= self.window:
            self._close_window(state, control)

    def _count(self, samples: float, rate: float, logs: Mapping[str, Any]) -> None:
        self.samples += samples
        missing = (1.0 - rate) * samples
        shares = {key[len(_KINDS) :]: logs[key] for key in logs if key.startswith(_KINDS) and logs[key]}
        whole = sum(shares.values())
        for kind, share in shares.items() if whole > 0 else [("unknown", whole := 1.0)]:
            self.masked[kind] = self.masked.get(kind, 0.0) + missing * share / whole

    def _above(self, share: float, samples: float) -> bool:
        return sum(self.masked.values()) / samples > share + _ROUNDING

    def _close_window(self, state: Any, control: Any) -> None:
        if self.stop_above is not None:
            self.windows_above = self.windows_above + 1 if self._above(self.stop_above, self.samples) else 0
            if self.windows_above >= self.patience:
                self.windows_above = 0
                control.should_training_stop = control.should_save = True
                self._say(
                    state,
                    f"training stops at step {state.global_step} and saves a checkpoint: "
                    f"{self.patience} window(s) in a row of at least {self.window} samples had more than "
                    f"{self.stop_above:.1%} without a verdict; {self._what()}",
                )
        self.samples, self.masked, self.warned = 0.0, {}, False

    def _alarm(self) -> str:
        return (
            f"{self._what()}. Either the infrastructure is failing, or the policy found a failure that gets "
            "it masked: read some of those completions"
        )

    def _what(self) -> str:
        total = sum(self.masked.values())
        kinds = sorted(self.masked.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{kind} {number / total:.0%}" for kind, number in kinds if number > 0)
        return f"of the last {self.samples:.0f} samples {total:.0f} got no verdict ({listed})"

    def _missed(self, state: Any, logs: Mapping[str, Any]) -> None:
        """A training log of which the first generation batch is part has the key, if any will."""
        if self._seen is None and "loss" in logs:
            self._seen = False
            self._say(
                state,
                f"no {_RATE} in the trainer's first log: no DeepGym reward function is logging, so nobody "
                "watches how many samples get no verdict. Give the trainer a TRLReward, or a CompositeReward "
                "of one",
            )

    def _say(self, state: Any, message: str) -> None:
        if state.is_world_process_zero:
            logger.warning("%s%s", f"{self.name}: " if self.name else "", message)


class RewardListCallback(TrainerCallback):
    """Looks at a trainer's reward functions when training begins.

    A callback isn't given its trainer, so ``rewards`` is the trainer
    (``trainer.add_callback(RewardListCallback( trainer))``) or the list of reward functions that it got.
    Logged as warnings: reward functions that un-mask rows without a verdict, and a DAPO penalty for another
    length than the trainer's. Logged as information: that KL or entropy still train on such rows.

    Raises at the beginning of training:
        ValueError: calls of the DeepGym rewards may take longer than the ranks wait for each other.
    """

    def __init__(self, rewards: Any) -> None:
        self.rewards = rewards

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Look."""
        given = getattr(self.rewards, "reward_funcs", self.rewards)
        funcs = given if isinstance(given, (list, tuple)) else [given]
        _fits(funcs, args)
        if not state.is_world_process_zero:
            return
        if others := unmasking(funcs):
            logger.warning(
                "reward function(s) %s give a number to rows on which a DeepGym reward has no verdict: TRL "
                "then trains on our failure as on a score of 0. Make all of them one "
                "deepgym_trl.CompositeReward, or keep the list and wrap each in "
                "deepgym_trl.gate(..., by=reward)",
                ", ".join(others),
            )
        for func in funcs:
            _lengths(func, args)
        if any(deepgym_of(func) is not None for func in funcs):
            self._say_what_still_trains(args)

    def _say_what_still_trains(self, args: Any) -> None:
        terms = [term for term in ("beta", "entropy_coef") if (getattr(args, term, None) or 0.0) > 0]
        if getattr(args, "use_adaptive_entropy", False) and "entropy_coef" not in terms:
            terms.append("use_adaptive_entropy")
        if terms and not _leaves_the_loss(self.rewards):
            logger.info(
                "with %s, rows without a verdict still train the policy through the KL or entropy term, "
                "although their advantage is 0; DeepGymGRPOTrainer and DeepGymRLOOTrainer take them out of "
                "the loss",
                " and ".join(terms),
            )


def _samples(args: Any, steps: int) -> float:
    """About how many samples a log with the key is for, ``steps`` optimizer steps after the last one."""
    rows = args.per_device_train_batch_size * args.world_size
    one_batch = rows * (getattr(args, "steps_per_generation", None) or args.gradient_accumulation_steps)
    each_step = rows * args.gradient_accumulation_steps / (getattr(args, "num_iterations", None) or 1)
    return float(max(one_batch, each_step * steps))


def _fits(funcs: Sequence[object], args: Any) -> None:
    """They are called one after the other, so the other ranks wait for the sum."""
    timeout = getattr(args, "ddp_timeout", None)
    if getattr(args, "world_size", 1) <= 1 or not isinstance(timeout, (int, float)):
        return
    judges = {id(judge): judge for func in funcs for judge in _judges(func) if hasattr(judge, "longest")}
    longest = sum(judge.longest for judge in judges.values())
    if longest > timeout:
        raise ValueError(
            f"the trainer's ddp_timeout is {timeout:g} s, but a call of the reward function(s) "
            f"{', '.join(map(name_of, judges.values()))} may take {longest:g} s, and the other ranks would "
            f"give up: set ddp_timeout={math.ceil(longest) + 60} in the trainer's config, or give each "
            f"reward function ddp_timeout={timeout / len(judges):g}"
        )


def _lengths(func: object, args: Any) -> None:
    theirs = getattr(args, "max_completion_length", None)
    for judge in _judges(func):
        ours = getattr(getattr(judge, "penalty", None), "max_completion_length", None)
        if ours is not None and theirs is not None and ours != theirs:
            logger.warning(
                "the overlong penalty of %r reaches -1 at %d tokens, but the trainer's max_completion_length "
                "is %d; give make_dapo_reward_fn that max_completion_length",
                name_of(judge),
                ours,
                theirs,
            )


def _judges(func: object) -> list[Any]:
    """The DeepGym rewards that ``func`` is made of, itself first."""
    judge = deepgym_of(func)
    parts = getattr(judge, "parts", ())
    return ([] if judge is None else [judge]) + [found for part in parts for found in _judges(part.func)]


def _leaves_the_loss(trainer: object) -> bool:
    from .masking import VerdictMaskMixin

    return isinstance(trainer, VerdictMaskMixin)
