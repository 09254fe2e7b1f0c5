#!/usr/bin/env bash
# A few steps of a small model on a GPU, with vLLM, while a fifth of the gradings is lost on purpose; then a look
# at what verl logged. It has not been run by the project, whose machines have no GPU: there, the same trainers run
# on the CPU, with a stub for vLLM and without FSDP's sharding. If something fails, please report what it printed.
#
#     pip install "deepgym-verl[trainer]==1.0.0" "verl[vllm]"
#     bash gpu_check.sh                              the v1 trainer
#     bash gpu_check.sh trainer.use_v1=False         the legacy trainer; any overrides of verl's will do
#
# MODEL (Qwen/Qwen3-0.6B) and STEPS (4) can be set. One GPU with 24 GB is plenty; it takes some minutes.
set -euo pipefail
model=${MODEL:-Qwen/Qwen3-0.6B} steps=${STEPS:-4} prompts=8 samples=4
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu_check.XXXXXX")
echo "everything is written to $work"

# A provider of the name `lossy`: the local sandbox, behind a network that fails. Entry points are looked for
# wherever Python looks for modules.
mkdir -p "$work/offers/deepgym_gpu_check-1.dist-info"
cat >"$work/offers/deepgym_gpu_check-1.dist-info/METADATA" <<'META'
Metadata-Version: 2.1
Name: deepgym-gpu-check
Version: 1
META
cat >"$work/offers/deepgym_gpu_check-1.dist-info/entry_points.txt" <<'POINTS'
[deepgym.providers]
lossy = deepgym_gpu_check:lossy
POINTS
cat >"$work/offers/deepgym_gpu_check.py" <<'PROVIDER'
from deepgym.contract.evidence import Phase
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider


def lossy(**options):
    return FaultyProvider(LocalProvider(**options), Fault("network", Phase.IN_PLAY), rate=0.2)
PROVIDER
export PYTHONPATH="$work/offers${PYTHONPATH:+:$PYTHONPATH}"
export VERL_FILE_LOGGER_PATH="$work/metrics.jsonl"

deepgym verl rows easy --repeat 64 --out "$work/train.parquet"
deepgym verl rows easy --split test --out "$work/val.parquet"

python -m verl.trainer.main_ppo \
    "data.train_files=['$work/train.parquet']" \
    "data.val_files=['$work/val.parquet']" \
    data.max_prompt_length=2048 \
    data.max_response_length=1024 \
    data.train_batch_size="$prompts" \
    actor_rollout_ref.model.path="$model" \
    actor_rollout_ref.actor.ppo_mini_batch_size="$prompts" \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.n="$samples" \
    actor_rollout_ref.rollout.val_kwargs.n="$samples" \
    actor_rollout_ref.rollout.val_kwargs.do_sample=True \
    actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_single_turn \
    algorithm.adv_estimator=deepgym_grpo \
    reward.custom_reward_function.path=pkg://deepgym_verl.reward \
    +reward.custom_reward_function.reward_kwargs.env=easy \
    +reward.custom_reward_function.reward_kwargs.mode=lossy \
    trainer.n_gpus_per_node=1 \
    trainer.total_training_steps="$steps" \
    trainer.test_freq="$steps" \
    trainer.save_freq=-1 \
    trainer.resume_mode=disable \
    'trainer.logger=[console,file]' \
    "trainer.rollout_data_dir=$work/rows" \
    "trainer.default_local_dir=$work/checkpoints" \
    "$@"

python - "$work" "$steps" $((prompts * samples)) <<'CHECK'
"""What must hold of the run, whatever the model said."""
import json
import math
import sys
from pathlib import Path

work, steps, batch = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
logged = {line["step"]: line["data"] for line in map(json.loads, (work / "metrics.jsonl").open())}
trained = {step: data for step, data in logged.items() if "actor/grad_norm" in data}
wrong = []


def check(holds: bool, what: str) -> None:
    print("ok  " if holds else "FAIL", what)
    if not holds:
        wrong.append(what)


def finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


check(sorted(trained) == list(range(1, steps + 1)), f"{steps} steps were trained")
norms = [data["actor/grad_norm"] for data in trained.values()]
check(all(map(finite, norms)), f"gradients are finite: {norms}")
check(any(norm and norm > 0 for norm in norms), "some step has a gradient (a group with different scores)")
means = [data["critic/score/mean"] for data in trained.values()]
check(all(finite(mean) and 0 <= mean <= 1 for mean in means), f"mean scores are in [0, 1]: {means}")

lost = [
    value
    for data in logged.values()
    for key, value in data.items()
    if key.startswith("val-aux/") and "/error/mean@" in key
]
mean = sum(lost) / max(1, len(lost))
check(0.05 < mean < 0.45, f"validation shows about a fifth without a verdict: {mean:.2f}")

rows = [json.loads(line) for file in (work / "rows").glob("*.jsonl") for line in file.open()]
legacy = any("error" in row for row in rows)
judged = [row for row in rows if (not row["error"] if legacy else row["input"].strip())]
share = len(judged) / (batch * steps)
check(0.6 < share < 0.95, f"about four fifths of the samples were trained on: {share:.2f}")
sys.exit(f"{len(wrong)} of the checks failed" if wrong else 0)
CHECK
