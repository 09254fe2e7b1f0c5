#!/usr/bin/env bash
# Dr. GRPO with rewards from an endpoint on the same machine; flags of OpenRLHF 0.10.2 and later. Needs GPUs and vLLM.
#
#     pip install "deepgym-openrlhf[trainer]==1.0.0"
#     bash endpoint.sh Qwen/Qwen3-0.6B
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
model=$1
samples=8

python prompts.py easy prompts.jsonl --repeat 64
deepgym openrlhf serve easy --infra-failure-score group_mean --group-size "$samples" > flags.txt &
endpoint=$!
# SIGTERM: what it holds is answered before it ends.
trap 'kill "$endpoint"; wait "$endpoint"' EXIT
until [ -s flags.txt ]; do
    kill -0 "$endpoint"
    sleep 1
done
read -ra flag < flags.txt

python -m openrlhf.cli.train_ppo_ray "${flag[@]}" \
    --actor.model_name_or_path "$model" \
    --data.prompt_dataset prompts.jsonl --data.input_key input --data.label_key label --data.apply_chat_template \
    --data.max_len 2048 --rollout.n_samples_per_prompt "$samples" --rollout.batch_size 16 --train.batch_size 128 \
    --algo.advantage.estimator dr_grpo --algo.kl.init_coef 0 \
    --actor.num_gpus_per_node 1 --vllm.num_engines 1 --vllm.tensor_parallel_size 1 \
    --ckpt.output_dir out
