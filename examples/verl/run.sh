#!/usr/bin/env bash
# verl with rewards of DeepGym's, to start a run of your own from. Needs a GPU, and vLLM as verl wants it.
#
#     pip install "deepgym-verl[trainer]==1.0.0" "verl[vllm]"
#     bash run.sh grpo Qwen/Qwen3-0.6B                       one answer to a prompt
#     bash run.sh dapo Qwen/Qwen3-0.6B                       the same with DAPO
#     bash run.sh agent Qwen/Qwen3-4B                        tools in a sandbox
#     bash run.sh legacy Qwen/Qwen3-0.6B trainer.nnodes=2    verl's legacy trainer, and an override of yours
set -euo pipefail
kind=$1 model=$2
shift 2

train=(easy) val=(medium) loop=deepgym_single_turn response=4096
trainer=(
    trainer.use_v1=True
    trainer.v1.trainer_mode=sync
    # A group of which nothing was judged is replaced; without this it is missing, and a batch of them ends the run.
    trainer.v1.sampler.sync_refill_failed_groups=True
)
case "$kind" in
grpo) more=() ;;
dapo)
    more=(
        actor_rollout_ref.actor.clip_ratio_low=0.2
        actor_rollout_ref.actor.clip_ratio_high=0.28
        actor_rollout_ref.actor.loss_agg_mode=token-mean
        algorithm.filter_groups.enable=True
        algorithm.filter_groups.metric=acc
    )
    ;;
agent)
    train=(fix_the_program data_cleanup) val=(http_service) loop=deepgym_agent response=16384
    more=(
        actor_rollout_ref.rollout.multi_turn.enable=True
        actor_rollout_ref.rollout.multi_turn.format=hermes
        # One more than the environments' limits.steps.
        actor_rollout_ref.rollout.multi_turn.max_assistant_turns=41
        # In characters: the environments' limits.output, and a session's remarks.
        actor_rollout_ref.rollout.multi_turn.max_tool_response_length=20480
    )
    ;;
legacy) trainer=(trainer.use_v1=False) more=() ;;
*)
    echo "usage: $0 grpo|dapo|agent|legacy MODEL [OVERRIDE...]" >&2
    exit 2
    ;;
esac

deepgym verl rows "${train[@]}" --repeat 64 --out train.parquet
deepgym verl rows "${val[@]}" --split test --out val.parquet
names="${train[*]} ${val[*]}"

python -m verl.trainer.main_ppo \
    "data.train_files=['$PWD/train.parquet']" \
    "data.val_files=['$PWD/val.parquet']" \
    data.max_prompt_length=2048 \
    data.max_response_length="$response" \
    data.train_batch_size=32 \
    actor_rollout_ref.model.path="$model" \
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.n=8 \
    trainer.n_gpus_per_node=1 \
    'trainer.logger=[console]' \
    algorithm.adv_estimator=deepgym_grpo \
    actor_rollout_ref.rollout.agent.default_agent_loop="$loop" \
    reward.custom_reward_function.path=pkg://deepgym_verl.reward \
    "+reward.custom_reward_function.reward_kwargs.env=[${names// /,}]" \
    "${trainer[@]}" "${more[@]}" "$@"
