"""What the probe plays: the installed verl's loops and reward managers, with a model that follows a script.

Without Ray, without a download, and with verl's own configuration.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from deepgym.environments import MultiTurnEnvironment, load_environment, load_multi_turn_environment

from . import judge
from .judge import Judge
from .options import Options

__all__ = ["AGENT", "ENV", "acts", "answers", "broken", "config", "play", "tokenizer"]

ENV, AGENT = "two_sum", "fix_the_program"
#: Of a configuration that names the judge without a provider; it sets the two apart.
_DEADLINE = 1800.0
_PLACE = "reward.custom_reward_function"
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def answers() -> list[str]:
    """A reference answer to ``ENV``, and an empty one."""
    return [f"```python\n{load_environment(ENV).reference}\n```", ""]


def acts() -> list[list[str]]:
    """What an agent says that does ``AGENT``'s reference actions, and one that does nothing."""
    env = load_multi_turn_environment(AGENT)
    assert isinstance(env, MultiTurnEnvironment)
    return [[*map(_said, env.reference or ()), "Done."], ["Done."]]


def _said(call: Any) -> str:
    text = json.dumps({"name": call.name, "arguments": call.arguments})
    return f"<tool_call>\n{text}\n</tool_call>"


def config(env: str, *overrides: str) -> Any:
    """The configuration that verl itself composes, of a run whose rewards are DeepGym's.

    Raises whatever verl or hydra raises.
    """
    import verl

    hydra = import_module("hydra")
    ours = [
        f"{_PLACE}.path=pkg://deepgym_verl.reward",
        f"+{_PLACE}.reward_kwargs.env={env}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.prompt_length=16384",
        "actor_rollout_ref.rollout.response_length=32768",
        "actor_rollout_ref.rollout.multi_turn.max_tool_response_length=4096",
    ]
    folder = str(Path(verl.__file__).with_name("trainer") / "config")
    with hydra.initialize_config_dir(config_dir=folder, version_base=None):
        composed: Any = hydra.compose(config_name="ppo_trainer", overrides=[*ours, *overrides])
    return composed


def broken(env: str, *overrides: str) -> Any:
    """As ``config``, of a run whose sandbox provider fails."""
    from deepgym.client import DeepGym
    from deepgym.contract.evidence import Phase
    from deepgym.testing import FakeProvider, Fault, FaultyProvider

    options = Options.read({"env": env, "deadline": _DEADLINE})
    if options not in judge._judges:
        provider = FaultyProvider(FakeProvider(), Fault("provider", Phase.QUEUED))
        judge._judges[options] = Judge(options, DeepGym(provider=provider))
    return config(env, f"+{_PLACE}.reward_kwargs.deadline={_DEADLINE}", *overrides)


def play(name: str, settings: Any, said: Sequence[str], **row: Any) -> Any:
    """What the loop ``name`` returns for one sample, whose model says ``said``, one after the other.

    Args:
        name: As verl knows the loop.
        settings: The configuration.
        said: The model's turns.
        row: More of the row than a legacy trainer gives.

    Raises whatever the loop raises.
    """
    return asyncio.run(_played(name, settings, said, row))


async def _played(name: str, settings: Any, said: Sequence[str], row: dict[str, Any]) -> Any:
    from verl.experimental.agent_loop import agent_loop
    from verl.utils.dataset.rl_dataset import RLHFDataset

    env = str(settings.reward.custom_reward_function.reward_kwargs.env)
    loop: Any = import_module("hydra.utils").instantiate(
        config=agent_loop._agent_loop_registry[name],
        trainer_config=agent_loop.DictConfigWrap(config=settings),
        server_manager=_Script(said),
        tokenizer=tokenizer(),
        processor=None,
        hf_model_type=None,
        dataset_cls=RLHFDataset,
        data_config=agent_loop.DictConfigWrap(settings.data),
        tools=agent_loop.ToolListWrap([]),
    )
    columns = {
        "raw_prompt": [{"role": "user", "content": "Solve it."}],
        "data_source": f"deepgym/{env}",
        "reward_model": {"style": "rule", "ground_truth": env},
        "extra_info": {"index": 0, "env": env},
        "index": 0,
        "tools_kwargs": {},
    }
    return await loop.run({}, **columns, **row)


class _Script:
    """verl's client of the servers that generate."""

    def __init__(self, said: Sequence[str]) -> None:
        self._said = list(said)

    async def generate(self, request_id: str, **asked: Any) -> Any:
        """The next turn."""
        from verl.workers.rollout.replica import TokenOutput

        tokens = tokenizer().encode(f"{self._said.pop(0)}<|im_end|>")
        return TokenOutput(token_ids=tokens, extra_fields={"min_global_steps": 0, "max_global_steps": 0})


@functools.lru_cache(maxsize=1)
def tokenizer() -> Any:
    """One token for each byte, and three more."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={byte: index for index, byte in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(
        [AddedToken(name, special=True) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=_TEMPLATE,
        model_max_length=1 << 20,
    )
