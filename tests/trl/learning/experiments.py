"""Policies that learn from rewards of the local sandbox, while runs fail on our side.

A tiny model with random weights can't write Python, so its text becomes an answer: a function that tells about
the text, which the sandbox runs and declared cases judge. Every answer carries the number of its completion, so
that which runs fail depends on the seed alone.

Run as a script it tries seeds: `python tests/trl/learning/experiments.py share|long SEED...`
"""

from __future__ import annotations

import ast
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from datasets import Dataset

import trl
from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment
from deepgym.extract import completion_text
from deepgym.providers.base import Provider
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_trl import TRLReward

EIGHTHS = 8
#: Characters; what the untrained model writes is longer now and then.
LONG = 12

#: One case for each eighth of the text that is lower-case letters.
SHARE = Environment(
    name="learning/share",
    task="Write lower-case letters.",
    verify=Cases(
        function="holds",
        cases=tuple(Case(args=(eighths,), expected=True) for eighths in range(1, EIGHTHS + 1)),
    ),
)
HOLDS = f"""
def holds(eighths):
    letters = sum("a" <= char <= "z" for char in TEXT)
    return {EIGHTHS} * letters >= eighths * max(1, len(TEXT))
"""
#: Any text has three quarters of the reward, a long one all of it.
LENGTH = Environment(
    name="learning/length",
    task="Write a long answer.",
    verify=Cases(
        function="longer",
        cases=tuple(Case(args=(length,), expected=True) for length in (-3, -2, -1, LONG)),
    ),
)
LONGER = """
def longer(length):
    return len(TEXT) > length
"""


def share(text: str) -> float:
    """What `SHARE` gives `text`."""
    letters = sum("a" <= char <= "z" for char in text)
    return EIGHTHS * letters // max(1, len(text)) / EIGHTHS


def length(text: str) -> float:
    """What `LENGTH` gives `text`."""
    return 1.0 if len(text) > LONG else 0.75


@dataclass(frozen=True)
class Task:
    env: Environment
    program: str
    score: Callable[[str], float]


TASKS = {"share": Task(SHARE, HOLDS, share), "long": Task(LENGTH, LONGER, length)}


class Asked(TRLReward):
    """The reward function, which notes each call's texts and rewards."""

    def __init__(self, task: Task, dg: DeepGym) -> None:
        numbers = itertools.count()

        def code(completion: Any) -> str:
            return f"TEXT = {completion_text(completion)!r}\n{task.program}# completion {next(numbers)}\n"

        super().__init__(task.env, extract=code, dg=dg)
        self.calls: list[tuple[list[str], list[float | None]]] = []

    def __call__(self, prompts: Any, completions: Any, *args: Any, **columns: Any) -> list[float | None]:
        rewards = super().__call__(prompts, completions, *args, **columns)
        self.calls.append(([completion_text(one) for one in completions], rewards))
        return rewards


class LosesLongAnswers(FaultyProvider):
    """A provider whose fault strikes runs of long answers alone."""

    def strikes(self, answer: str) -> bool:
        text = ast.literal_eval(answer.partition("\n")[0].removeprefix("TEXT = "))
        return len(text) > LONG and super().strikes(answer)


@dataclass
class Training:
    """What happened: a value for each call of the reward function, of all its completions."""

    texts: list[list[str]]
    rewards: list[list[float | None]]
    scores: list[list[float]]
    struck: int
    logs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def curve(self) -> list[float]:
        """The true mean score of each step, outages or not."""
        return [mean(scores) for scores in self.scores]

    @property
    def long(self) -> list[float]:
        """The share of long answers of each step."""
        return [mean(len(text) > LONG for text in texts) for texts in self.texts]

    @property
    def unjudged(self) -> int:
        return sum(reward is None for rewards in self.rewards for reward in rewards)


def outages(seed: int) -> Provider:
    """The local sandbox, where a fifth of the runs is lost in one of three ways."""
    provider: Provider = LocalProvider()
    faults = (
        Fault("provider", Phase.REPORTED),
        Fault("network", Phase.IN_PLAY),
        Fault("evicted", Phase.REPORTED),
    )
    for number, fault in enumerate(faults):
        provider = FaultyProvider(provider, fault, rate=0.072, seed=3 * seed + number)
    return provider


def losing_long_answers(seed: int) -> Provider:
    """The local sandbox, where of the long answers' runs 60 % are lost."""
    return LosesLongAnswers(LocalProvider(), Fault("provider", Phase.REPORTED), rate=0.6, seed=seed)


def struck(provider: Any) -> int:
    """How many runs a fault struck, or several did."""
    answers: set[str] = set()
    while isinstance(provider, FaultyProvider):
        answers |= provider.struck.keys()
        provider = provider.inner
    return len(answers)


def train(
    model: str,
    folder: Path,
    task: str,
    *,
    provider: Provider,
    kind: str = "grpo",
    naive: bool = False,
    seed: int = 1,
    steps: int = 20,
    rate: float = 2e-2,
) -> Training:
    """Train on `task` with rewards of `provider`; a `naive` harness reports 0 for what wasn't judged."""
    config, trainer_class = {
        "grpo": (trl.GRPOConfig, trl.GRPOTrainer),
        "rloo": (trl.RLOOConfig, trl.RLOOTrainer),
    }[kind]
    with ExitStack() as stack:
        dg = stack.enter_context(DeepGym(provider=provider))
        reward = Asked(TASKS[task], dg)

        def zeros(**call: Any) -> list[float]:
            return [0.0 if one is None else one for one in reward(**call)]

        args = config(
            output_dir=str(folder),
            per_device_train_batch_size=32,
            num_generations=8,
            max_completion_length=8,
            max_steps=steps,
            learning_rate=rate,
            lr_scheduler_type="constant",
            beta=0.0,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            seed=seed,
        )
        rows = [{"prompt": [{"role": "user", "content": f"task {row}"}]} for row in range(16)]
        trainer = trainer_class(
            model=model,
            reward_funcs=zeros if naive else reward,
            train_dataset=Dataset.from_list(rows),
            args=args,
        )
        trainer.train()
    texts = [texts for texts, _ in reward.calls]
    return Training(
        texts=texts,
        rewards=[rewards for _, rewards in reward.calls],
        scores=[[TASKS[task].score(text) for text in batch] for batch in texts],
        struck=struck(provider),
        logs=[line for line in trainer.state.log_history if "reward" in line],
    )


def _show(name: str, found: Training, curve: Sequence[float], began: float) -> None:
    points = " ".join(f"{value:.2f}" for value in curve)
    print(
        f"{name:14} first {curve[0]:.3f} last five {mean(curve[-5:]):.3f} | {points} | struck {found.struck} "
        f"unjudged {found.unjudged} {time.monotonic() - began:.1f} s",
        file=sys.stderr,
    )


def main(task: str, seeds: Sequence[int], model: str) -> None:
    logging.disable(logging.WARNING)
    for seed in seeds:
        tried: list[tuple[str, dict[str, Any]]] = [
            ("none", {"provider": losing_long_answers(seed)}),
            ("zero", {"provider": losing_long_answers(seed), "naive": True}),
        ]
        if task == "share":
            tried = [
                ("no outage", {"provider": LocalProvider()}),
                ("outages", {"provider": outages(seed)}),
                ("rloo outages", {"provider": outages(seed), "kind": "rloo"}),
            ]
        for name, options in tried:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                found = train(model, Path(folder), task, seed=seed, **options)
            _show(f"{seed} {name}", found, found.long if task == "long" else found.curve, began)


if __name__ == "__main__":
    _, _model, _task, *_seeds = sys.argv
    main(_task, [int(seed) for seed in _seeds], _model)
