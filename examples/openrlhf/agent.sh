#!/usr/bin/env bash
# Dr. GRPO with the agent file, which leaves out what has no verdict; flags of OpenRLHF 0.10.2 and later. Needs GPUs and vLLM.
#
#     pip install "deepgym-openrlhf[trainer]==1.0.0"
#     bash agent.sh Qwen/Qwen3-0.6B
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
model=$1

python prompts.py easy prompts.jsonl --repeat 64
# Ray's workers take these from here if no cluster is running yet.
export DEEPGYM_OPENRLHF_ENV=easy DEEPGYM_OPENRLHF_STOP_AFTER=64

python -m openrlhf.cli.train_ppo_ray --train.agent_func_path "$(deepgym openrlhf agent-path)" \
    --actor.model_name_or_path "$model" \
    --data.prompt_dataset prompts.jsonl --data.input_key input --data.label_key label --data.apply_chat_template \
    --data.max_len 2048 --rollout.n_samples_per_prompt 8 --rollout.batch_size 16 --train.batch_size 128 \
    --algo.advantage.estimator dr_grpo --algo.kl.init_coef 0 \
    --actor.num_gpus_per_node 1 --vllm.num_engines 1 --vllm.tensor_parallel_size 1 \
    --ckpt.output_dir out
