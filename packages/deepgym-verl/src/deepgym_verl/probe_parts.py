"""What this package uses of verl that isn't public, and whether the installed verl has it in that form."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

__all__ = ["FIELDS", "LOOPS", "PARTS", "missing_parts"]

LOOPS = "verl.experimental.agent_loop"
_MANAGERS = "verl.experimental.reward_loop.reward_manager"
_ALGORITHMS = "verl.trainer.ppo.core_algos"
#: Each with the parameters that it is called with, or that a method of ours in its place takes.
PARTS: dict[str, tuple[str, ...] | None] = {
    f"{LOOPS}.agent_loop:_agent_loop_registry": None,
    f"{LOOPS}.agent_loop:DictConfigWrap": None,
    f"{LOOPS}.single_turn_agent_loop:SingleTurnAgentLoop.run": ("self", "sampling_params"),
    f"{LOOPS}.tool_agent_loop:AgentState.TERMINATED": None,
    f"{LOOPS}.tool_agent_loop:ToolAgentLoop.run": ("self", "sampling_params"),
    f"{LOOPS}.tool_agent_loop:ToolAgentLoop._call_tool": ("self", "tool_call", "tools_kwargs", "agent_data"),
    f"{LOOPS}.tool_agent_loop:ToolAgentLoop._handle_processing_tools_state": ("self", "agent_data"),
    "verl.tools.schemas:OpenAIFunctionToolSchema": None,
    "verl.tools.schemas:ToolResponse": None,
    f"{_ALGORITHMS}:ADV_ESTIMATOR_REGISTRY": None,
    f"{_ALGORITHMS}:compute_grpo_outcome_advantage": ("token_level_rewards", "response_mask", "index"),
    f"{_MANAGERS}.limited:RateLimitedRewardManager.__init__": (
        "self",
        "config",
        "tokenizer",
        "compute_score",
    ),
    "verl.trainer.ppo.rollout_corr_helper:compute_rollout_correction_and_add_to_batch": (
        "batch",
        "rollout_corr_config",
    ),
    "transfer_queue:async_kv_list": ("partition_id",),
}
#: What an agent loop's row is made of.
FIELDS = {
    "AgentLoopOutput": (
        "prompt_ids",
        "response_ids",
        "response_mask",
        "response_logprobs",
        "reward_score",
        "metrics",
        "extra_fields",
    ),
    "AgentLoopMetrics": ("compute_score",),
}


def missing_parts() -> list[str]:
    """What of ``PARTS`` and ``FIELDS`` isn't there, or not in that form.

    Raises:
        ImportError: verl's agent loops can't be imported.
    """
    module = import_module(f"{LOOPS}.agent_loop")
    lost = [name for name, parameters in PARTS.items() if not _is_there(name, parameters)]
    for model, fields in FIELDS.items():
        known = getattr(getattr(module, model, None), "model_fields", ())
        lost += [f"{module.__name__}:{model}.{field}" for field in fields if field not in known]
    return lost


def _is_there(name: str, parameters: tuple[str, ...] | None) -> bool:
    """Whether it exists, takes these parameters first, and needs no others."""
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    if parameters is None:
        return True
    theirs = list(inspect.signature(found).parameters.values())
    first, further = theirs[: len(parameters)], theirs[len(parameters) :]
    needed = [each for each in further if each.default is each.empty and each.kind in _BY_NAME_OR_PLACE]
    return tuple(each.name for each in first) == parameters and not needed


_BY_NAME_OR_PLACE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)
